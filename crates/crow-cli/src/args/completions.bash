_crow_agent() {
    # Bash breaks words at `=` and `:` too, which stand in options and names of models: what no blank parts is one word.
    local line=${COMP_LINE:0:COMP_POINT} word at index=-1
    local words=()
    for ((at = 0; at <= COMP_CWORD; at++)); do
        if [[ $at == 0 || $line == [[:blank:]]* ]]; then
            line=${line#"${line%%[![:blank:]]*}"}
            words[++index]=
        fi
        word=${COMP_WORDS[at]}
        # Of the last word only what stands before the cursor counts.
        [[ $at == "$COMP_CWORD" ]] && word=$line
        words[index]+=$word
        line=${line#"$word"}
    done
    # Bash replaces the part behind the last break alone.
    local before=${words[index]%"$2"}
    COMPREPLY=()
    while IFS= read -r word || [[ -n $word ]]; do
        COMPREPLY+=("${word#"$before"}")
    done < <(CROW_COMPLETE=bash _CLAP_COMPLETE_INDEX=$index _CLAP_IFS=$'\n' PROGRAM -- "${words[@]}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/:] ]] && compopt -o nospace 2>/dev/null
    return 0
}
# Bash before 4.4 can only sort.
complete -o bashdefault -o nosort -F _crow_agent crow-agent 2>/dev/null || complete -o bashdefault -F _crow_agent crow-agent
