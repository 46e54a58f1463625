//! Words and phrases by which the end of a text is recognized, for each kind of phrase one list in nine languages.
//!
//! The lists are alternatives of regular expressions. They were tuned on the 400 endings of `tests/data/endings_tuned.jsonl`.

use std::{iter, sync::LazyLock};

use regex::{Regex, RegexBuilder};

/// Letters and digits of the languages of the lists that write words with blanks between them, in lower case. The class of
/// all letters would take most of the time that it takes to compile the expressions.
const WORD_CHARS: &str = "a-z0-9_ß-ɏͰ-ԯ";

/// Builds an expression for texts in lower case, in which `.` also matches line breaks, and `\w` stands for
/// [`WORD_CHARS`].
fn compile(pattern: &str) -> Regex {
    RegexBuilder::new(&with_word_chars(pattern))
        .dot_matches_new_line(true)
        .size_limit(1 << 24)
        .build()
        .expect("invariant: the pattern is a constant that tests compile")
}

/// Replaces `\w` and `\W`.
fn with_word_chars(pattern: &str) -> String {
    let mut result = String::with_capacity(pattern.len() * 2);
    let mut is_in_class = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('w') if is_in_class => result.push_str(WORD_CHARS),
                Some('w') => result.extend(["[", WORD_CHARS, "]"]),
                Some('W') => result.extend(["[^", WORD_CHARS, "]"]),
                escaped => result.extend(iter::once(c).chain(escaped)),
            },
            '[' | ']' => {
                is_in_class = c == '[';
                result.push(c);
            }
            _ => result.push(c),
        }
    }
    result
}

fn any_of(alternatives: &[&str]) -> Regex {
    compile(&format!("(?:{})", alternatives.join("|")))
}

/// The same, as whole words.
fn any_word_of(alternatives: &[&str]) -> Regex {
    compile(&format!(r"(?:^|\W)(?:{})(?:$|\W)", alternatives.join("|")))
}

/// Verbs that ask for work on files or on the machine.
const WORK_VERBS: &[&str] = &[
    "add|adapt|adjust|align|put|shrink|speed|allow|apply|archive|attach|automate|back up|backup|benchmark|bring|build|bump|bundle|cache|change|clean|cleanup|clear|comment|commit|configure|connect|containerize|convert|correct|create|cut|delete|deploy|disable|dockerize|document|downgrade|download|downsize|drop|edit|embed|enable|encrypt|enforce|ensure|escape|export|expose|extend|extract|fix|fork|format|generate|get rid|handle|hide|hook|implement|import|improve|increase|init|initialize|inline|insert|install|integrate|introduce|kill|link|lint|localize|lower|make|merge|migrate|minify|mock|modify|move|open|optimi[sz]e|package|paginate|patch|pin|prevent|prune|purge|port|provision|publish|push|raise|reduce|refactor|release|remove|rename|rebase|register|reorder|reorganize|repair|replace|reset|resolve|restart|restore|revert|rewrite|rollback|rotate|run|save|schedule|sanitize|secure|seed|send|set|setup|shorten|sign|silence|simplify|sort|strip|speed up|split|squash|start|stop|support|suppress|swap|switch|sync|tag|tidy|train|translate|trim|turn|uncomment|undo|unify|uninstall|update|upgrade|upload|use|validate|wipe|wire|wrap|write",
    "aktualisiere|behebe|richte|stell|bau|pass|benenne|entferne|ersetze|erstelle|führe|füge|generiere|implementiere|installiere|korrigiere|lösche|mach|migriere|refaktoriere|repariere|räum|schreib|starte|verschiebe|ändere|übersetze",
    "ajoute|corrige|crée|démarre|exécute|fais|lance|mets|mettre|remplace|renomme|supprime|traduis|écris",
    "aggiorna|aggiungi|configura|converti|correggi|crea|elimina|implementa|installa|rimuovi|rinomina|scrivi|sistema|sostituisci|sposta|traduci",
    "herschrijf|hernoem|installeer|maak|pas|repareer|verplaats|vertaal|verwijder|voeg|wijzig|zet",
    "actualiza|haz|limpia|pon|agrega|agregar|ajusta|añade|arregla|borra|cambia|configura|crea|ejecuta|elimina|escribe|extrae|instala|mueve|quita|renombra|traduce",
    "adicione|limpa|apaga|atualize|coloque|corrija|cria|crie|cree|escreva|faça|salve|execute|gere|inclua|libera|mova|remova|renomeie|rode|substitua|traduza|troque",
];
/// Words before the verb of a request.
const BEFORE_VERBS: &str = "hi|hey|hello|ok|okay|so|now|then|and|please|pls|plz|kindly|bitte|por favor|s'il te plaît|s'il vous plaît|can you|could you|would you|will you|can you please|could you please|i want you to|i need you to|i'd like you to|go ahead and|let's|just|kannst du|könntest du|kannst du bitte|puedes|podrías|peux-tu|pourrais-tu|você pode|pode";

pub(super) static WORK_REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    let verbs = WORK_VERBS.join("|");
    compile(&format!(
        r"(?:^|[.!?:;,\n—–-]\s*|\band (?:then )?|\bund |\bsondern )\s*(?:(?:{BEFORE_VERBS})[ ,]+)*(?:{verbs})(?:$|\W)"
    ))
});
/// Requests for work in languages in which the verb does not come first, or has other letters.
pub(super) static OTHER_WORK_REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\bbitte\b[^.?!\n]*\b\w{2,}(?:en|eln|ern)\s*(?:[.!]|$)",
        r"\b(?:kannst|könntest|können|könnten|kun|kan|kunt|zou) (?:du|sie|ihr|je|u|jij)\b[^.?!\n]*\b\w{3,}(?:en|eln|ern)\s*(?:\?|$)",
        "加上|帮我|请把|把|请帮|修复|添加|加一个|创建|新建|写一|改成|改为|改一下|删除|重构|更新|翻译|保存|运行|安装|配置|实现",
        "してください|して下さい|を追加|を修正|を作成|を削除|を実行|を書いて|直して|作って|高速化|実装",
        "добавь|исправь|создай|удали|обнови|перепиши|запусти|напиши|настрой|переименуй|замени|сделай|установи|переведи|перенеси|почини",
    ])
});
/// An option of a command, which is no verb (`git merge --squash`).
pub(super) static OPTION: LazyLock<Regex> = LazyLock::new(|| compile(r"[ \t]--?\w[\w-]*"));
/// Requests that begin like one for work but ask to look at something.
pub(super) static CHECK_REQUEST: LazyLock<Regex> =
    LazyLock::new(|| compile("make sure|帮我(?:检查|看|解释|查|分析|review)"));
/// Requests to change nothing.
pub(super) static LOOK_ONLY: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:just|only) (?:show|tell|print|list|give|explain|answer|say)\b|\bshow (?:it|them) to me\b",
        r"\b(?:bitte|kannst du|könntest du|können sie|könnten sie|kun je|kunt u)\b[^.?!\n]*\b(?:uitleggen|bekijken|controleren|nagaan|zeggen|helfen|antworten|beschreiben|duzen|erklären|lesen|nennen|prüfen|sagen|schauen|ansehen|anschauen|zeigen|zusammenfassen|überprüfen)\b",
        "don'?t (?:touch|change|modify|edit|write)|do not (?:touch|change|modify|edit)|without changing|no code|no changes|report only|conceptually|ändere nichts",
        r"only the plan|just (?:the )?plan|nur (?:den )?plan|\bplan for\b|\bplan how\b|make a plan|give me a plan|a plan\b|draft a plan|outline",
    ])
});
/// Requests for a text that belongs into the answer.
pub(super) static TEXT_REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:ask me|write|give|show|suggest|donne-moi|dame|gib mir|schreib\w*|escribe|écris|make|create|generate|draft|tell|translate)\b[^.\n]{0,40}\b(?:absage|brief|bio|checklist|list|icebreakers?|questions|dialog|dialogue|letter|quote|riddle|quiz|question|haiku|poem|joke|story|limerick|regex|regular expression|e-?mail|message|query|one-?liner|function|snippet|example|tweet|sentence|summary|announcement|name|names|title|paragraph|sql)\b",
        r"\b(?:scrivi|schrijf|redacta|rédige|redige|verfasse)\b[^.\n]{0,40}\b(?:e-?mail|mail|lettera|brief|messaggio|bericht|correo|carta|poesia|testo|text|lettre|nachricht)\b",
        r"translate (?:this|the following|to \w+:)|übersetze:",
        "```|:\\s*\\n|:\\s*[\"“„«`'{\\[(<]|\\n.*\\n",
        r"\b(?:this|following|these) (?:code|function|snippet|text|json|sql|query|sentence|paragraph|regex|list|message|email|error|word|string)\b|\babove\b",
    ])
});
/// Words that name files and parts of a project.
pub(super) static PROJECT: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b[\w-]+\.[a-z]{1,5}\b|\w+/|\w+_\w+|\w\(\)|--?\w+",
        r"\b(?:project|repo|repository|code ?base|file|files|folder|directory|module|package|tests?|app|application|website|site|page|endpoint|api|server|client|build|ci|pipeline|branch|dependenc\w+|readme|config\w*|docs?|documentation|service|component|layer|class|form|cli|docker\w*|database|schema|linter|warnings|imports?|here|projekt|datei\w*|ordner|proyecto|archivo|projet|fichier|projeto|arquivo)\b",
        "项目|文件|代码|файл|проект|ファイル|プロジェクト",
    ])
});
/// Things that commands change without changing files of the project.
pub(super) static OUTSIDE_OF_FILES: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\b(?:branch|tag|tagged|commit\w*|release\w*|issue|pull request|pr|database|table|container|image|volume|server|service|worker|ticket|bucket|deploy\w*|process|job|cluster|pod|secret|alias|cron\w*|stash|remote|log ?in|account|token|session)(?:$|[^\w.]|\.(?:\s|$))",
    )
});

/// Offers to do more, and courtesies at the end of an answer.
pub(super) static OFFER: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:would you like|do you want|want me to|should i|shall i|let me know|feel free|happy to|glad to|if you(?:'d)? (?:like|want|prefer|need)|say the word|would it help|anything else|interested in|just ask|just say|tell me if|if that helps|hope (?:this|that) helps|i can|i could|if desired)\b",
        "möchtest du|soll ich|möchten sie|sag bescheid",
        "souhaitez-vous|veux-tu|voulez-vous|dois-je|n'hésite",
        "¿quieres|¿deseas|¿te gustaría|quieres que|avísame",
        "quer que|deseja|gostaria que|me avise",
        "要我|需要我|如果需要|如果您|告诉我|希望我",
        "хотите|хочешь|если нужно|сделать ли",
        "ましょうか|必要であれば|よろしければ|お知らせください",
    ])
});
/// Questions for a permission to begin.
pub(super) static ASKS_TO_PROCEED: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:shall|should|may|can) i (?:proceed|continue|go ahead|start|begin|do (?:this|that|it|so)|apply|run (?:it|this)|delete|drop|make (?:this|these|the|that)|now)|proceed\?|go ahead\?|ok(?:ay)? to (?:proceed|continue|go)|do you confirm|do you approve|is (?:that|this) (?:ok|okay|fine|alright|correct|what you)|does (?:that|this) (?:sound|look) (?:good|right|ok|okay)|sounds good\?",
        "(?:soll|darf) ich (?:fortfahren|so|das|loslegen|weiter|beginnen|anfangen)|puis-je|je continue|¿(?:procedo|continúo|sigo)|posso (?:prosseguir|continuar)",
        r"可以继续吗|是否继续|要继续吗|продолжать\?|進行吗|よろしいでしょうか|よろしいですか",
    ])
});
/// Demands for what is needed to go on.
pub(super) static DEMAND: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:please (?:provide|share|paste|post|send|give|tell|specify|clarify|describe|confirm|let me know|point|set|upload|attach|name|choose|pick|decide|supply|indicate|enter|run|reply|state)|(?:could|can|would) you (?:please )?(?:provide|share|paste|post|send|give|tell|specify|clarify|describe|confirm|point|upload|attach|decide|find out)|provide (?:me|the)|i(?:'d| would)? (?:also |still )?need (?:the|an?|to know|a few|more|your|you|some|one|two|three)|let me know (?:which|what|whether|how|where|and)|tell me (?:which|what|whether|how|where|the)|paste (?:the|it|your)|waiting for|i(?:'| wi)ll wait|awaiting|need your|which one|which of (?:the|these|those|them)|do you confirm|confirm that|before i (?:change|do|start|can|touch)|can you confirm)\b",
        "bitte (?:nenne|gib|schick|teile|sag|nennen|geben|schicken|teilen|sende|lade|beschreib|präzisier|bestätig)|brauche ich|benötige ich",
        "pouvez-vous|peux-tu|merci de|indiquez|indique-moi|veuillez|précise",
        "necesito|por favor,? (?:indica|dime|envía|proporciona|comparte|pega|especifica|confirma)",
        "preciso|por favor,? (?:informe|envie|diga|forneça|cole|especifique|confirme)",
        "请(?:提供|告诉|说明|您|确认|问|发)|教えて|ご提供|ください。?$",
        "пришлите|уточните|укажите|скажите|подскажите|пожалуйста",
    ])
});
/// Questions with a question word, which no offer begins with.
pub(super) static QUESTION_WORD: LazyLock<Regex> =
    LazyLock::new(|| compile(r"^\W*(?:and |so |but )?(?:which|what|where|who|whose|when|how)\b"));

/// Announcements of what comes next.
pub(super) static ANNOUNCEMENT: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:i['’]ll|i will|i['’]m (?:now |just )?going to|i am (?:now |just )?going to|im going to|ill (?:now|start|begin|check|run|do)|let me|let's|let us|i need to|i still need to|i (?:now )?have to (?:look|check|read|run|see|update)|we['’]ll|we will|i shall|i['’]d (?:now|next) |going to (?:run|check|look|fix|start|add|implement|update)|(?:i['’]m|i am) about to|i['’]m gonna|i plan to|i intend to|allow me|stand by|hold on|please wait|one moment|one sec|just a (?:moment|sec|second)|give me a (?:moment|second|minute)|bear with me|working on (?:it|that|this)|on it\b|starting (?:now|with)|proceeding|moving on|continuing|time to (?:run|fix|add|write|check|implement))",
        r"^\W*next\s*:|^\W*zaczynam\b|\bteraz (?:zrobię|dodam|sprawdzę)",
        r"ich werde|ich (?:schaue|sehe|lese|prüfe|führe|beginne|starte|füge|passe|mache|erstelle|ändere|kümmere|öffne|suche|baue|schreibe)\b[^.]*\b(?:jetzt|nun|gleich|dann|als nächstes|zuerst|zunächst)|jetzt (?:werde|führe|prüfe|schaue|lese|füge|passe|mache|ändere)|als nächstes|einen moment|moment bitte",
        r"\bich \w+e\b[^.]*\b(?:jetzt|nun|gleich|als nächstes|zuerst|zunächst)\b",
        r"\b(?:prüfe|mache|schaue|lese|starte|teste|ändere|baue|schreibe|erledige|behebe|passe|führe) ich (?:\w+ )?(?:gleich|jetzt|nun|dann|als nächstes|sofort|danach)\b",
        "je vais|je commence|j'y vais|un instant|un moment|je m'en occupe",
        "voy a|ahora (?:voy|mismo)|un momento|a continuación|procedo a|procederé",
        "vou |um momento|em seguida|agora vou|irei ",
        "让我|我将|我会|我来|我先|接下来|稍等|请稍|现在开始|正在|马上",
        "これから|まず|今から|少々お待ち|お待ちください|します。?$",
        "сейчас|я собираюсь|я буду|приступаю|начну|одну минуту|подождите|дальше я|теперь я",
    ])
});
/// The announcements that can hardly mean anything else.
pub(super) static CLEAR_ANNOUNCEMENT: LazyLock<Regex> = LazyLock::new(|| {
    compile(r"\b(?:i['’]ll|i will|let me|i(?:['’]m| am) (?:now |just )?going to)\b")
});
/// Beginnings of a sentence that says what is under way.
pub(super) static UNDER_WAY: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"^(?:now |next,? |okay,? |ok,? |right,? |great,? |alright,? |good,? )*\W*(?:running|fixing|checking|adding|updating|looking|creating|reading|applying|implementing|starting|searching|installing|building|opening|writing|working|testing|moving|doing|proceeding|continuing|switching|refactoring|verifying|investigating|making|renaming|generating|rewriting|converting|migrating|deploying|downloading|executing|editing|trying|replacing|removing)\b",
    )
});
pub(super) static ENDS_WITH_NEXT: LazyLock<Regex> =
    LazyLock::new(|| compile(r"\b(?:next|now|in a moment|right away|shortly)\s*[.!:…]*$"));
/// The same without `now`, with which reports end as well ("The greeting is spelled correctly now.").
pub(super) static ENDS_WITH_SOON: LazyLock<Regex> =
    LazyLock::new(|| compile(r"\b(?:next|in a moment|right away|shortly)\s*[.!:…]*$"));
pub(super) static GERUND: LazyLock<Regex> = LazyLock::new(|| compile(r"\b\w+ing\b"));
/// Phrases that begin like an announcement and are none.
pub(super) static NO_ANNOUNCEMENT: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"let me know|let's say|let me explain|let me summari|\bi['’]d (?:made|added|created|written|left|changed|put|set|done|moved|renamed)\b",
    )
});
/// Conditions: what comes then depends on the user.
pub(super) static CONDITION: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:just (?:describe|tell|ask|say|send|paste)|describe the|if you|once you|when you|as soon as you|after you|unless you|with your|if i)\b",
        "wenn (?:du|sie)|sobald (?:du|sie)|si tu|si vous|dès que|si quieres|cuando|en cuanto|se você|assim que|если|когда вы|如果|请提供|たら",
    ])
});

/// Says that nothing was done, or that something cannot be done.
pub(super) static NEGATION: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:no changes?|not? (?:needed|necessary|required|changed|touched|modified)|nothing (?:to|was|has|needed|had)|made no|didn['’]t|did not|haven['’]t|have not|couldn['’]t|could not|cannot|can['’]t|(?:may|must) not|not (?:allowed|permitted)|no permission|denied|unable|wasn['’]t able|was not able|isn['’]t possible|not possible|impossible|won['’]t|will not|i failed|failed to|not available|no access|without success|blocked|not going to|refuse|left (?:it|the|everything|them)|unchanged|untouched|as you left|doesn['’]t exist|does not exist|there is no|there are no|no such)\b",
        "nicht|kein|schon|bereits|no (?:he|hay|pude|existe|fue|es)|ya (?:está|existe)|n'ai|n'est|n'existe|pas |déjà|não|já |没有|无法|不能|不需要|已经存在|なかった|ません|できません|не (?:нашел|удалось|могу|нужно|требуется|менял)",
    ])
});
/// Says that something is done.
pub(super) static DONE: LazyLock<Regex> = LazyLock::new(|| {
    any_word_of(&[
        r"(?:everything|it) works|changes made|done|fixed|finished|completed?|ready|successfully|(?:i['’]ve|i have) (?:now |just |also |successfully )?(?:\w+ed|written|made|set|run|put|built|rewritten|split|done|cut)",
        "i (?:added|changed|updated|created|replaced|removed|renamed|refactored|fixed|implemented|wrote|ran|installed|corrected|moved|bumped|deleted|converted|deployed|modified|set|split|rewrote|migrated|configured|tested|pushed|committed|restarted|optimi[sz]ed|translated|formatted|applied|cleaned|upgraded|ported|extracted|introduced|generated|saved|benchmarked|measured)",
        "(?:has|have) been|(?:is|are) now|now (?:uses|has|works|supports|returns|handles|passes|reads|prints|runs|shows|contains|loads)",
        r"(?:all|the) (?:\w+ )*tests? (?:are |now |all )*(?:pass|passing|passed|green)|all (?:\d+ )?tests|tests? pass|(?:were|was) (?:added|removed|updated|replaced|renamed|deleted|fixed|changed|created)",
        "added|removed|renamed|replaced|updated|created|refactored|bumped|migrated|implemented|deleted|converted|changed|installed|deployed|pushed|committed|released|upgraded|merged|configured|ran|executed|translated|ported|formatted|restarted|moved|rewritten|wrote|optimi[sz]ed|reduced|corrected|resolved|cleaned",
        "erledigt|fertig|habe ich|ich habe|wurden?|angelegt|erstellt",
        "listo|hecho|agregué|añadí|creé|actualicé|corregí|he (?:añadido|creado|actualizado|corregido|agregado|cambiado|eliminado)|se ha",
        "pronto|feito|adicionei|criei|corrigi|atualizei|removi",
        "j'ai|c'est fait|voilà|fait|terminé",
        "готово|сделано|добавил|исправил|создал|обновил|удалил",
    ])
});
/// The same in languages without spaces between words.
pub(super) static DONE_WITHOUT_SPACES: LazyLock<Regex> =
    LazyLock::new(|| any_of(&["完成|已|修复了|添加了|しました|完了"]));

const CHANGED: &str = "added|changed|updated|created|replaced|removed|renamed|refactored|fixed|implemented|corrected|moved|bumped|deleted|converted|modified|formatted|translated|migrated|extracted|introduced|generated|saved|ported|cleaned|upgraded|optimi[sz]ed|configured";

/// Says that files were changed.
pub(super) static SAYS_FILES_CHANGED: LazyLock<Regex> = LazyLock::new(|| {
    any_word_of(&[
        "fixed|changes made",
        &format!(
            "(?:i['’]ve|i have) (?:now |just |also |successfully )?(?:{CHANGED}|rewritten|written|made|split|set)"
        ),
        &format!("i (?:also )?(?:{CHANGED}|rewrote|wrote)"),
        "(?:is|are) (?:enabled|disabled|handled|supported|sorted|in place|set up|installed|available|clean|gone|fixed) now",
        &format!(
            r"(?:has|have) been (?:\w+ly )?(?:{CHANGED}|rewritten|written|split|reorgani[sz]ed|restructured)"
        ),
        "(?:was|were) (?:added|removed|updated|replaced|renamed|deleted|fixed|changed|created)",
        "(?:is|are) (?:now )?(?:fixed|added|updated|renamed|removed|replaced|gone|clean now|done|implemented|created)",
        "(?:added|removed|renamed|replaced|updated|created|refactored|bumped|migrated|implemented|deleted|converted|changed|upgraded|rewritten|wrote|corrected|moved|extracted|ported|formatted|translated|cleaned) (?:the|a|an|all|both|every|in|to|from|by|its|\\w)",
        "angelegt|erstellt|geändert|hinzugefügt|behoben|umbenannt|entfernt|korrigiert|repariert|angepasst",
        "agregué|añadí|creé|actualicé|corregí|he (?:añadido|creado|actualizado|corregido|agregado|cambiado|eliminado)|se ha (?:añadido|creado|actualizado|corregido)",
        "adicionei|criei|corrigi|atualizei|removi|renomeei",
        "j'ai (?:ajouté|créé|modifié|corrigé|supprimé|renommé|mis à jour|remplacé|écrit)",
        "добавил|исправил|создал|обновил|удалил|заменил|переименовал",
    ])
});
/// The same in languages without spaces between words.
pub(super) static SAYS_FILES_CHANGED_WITHOUT_SPACES: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        "已(?:经)?(?:创建|添加|修复|更新|将|修改|删除|替换|重命名|翻译)|修复了|添加了|修改了",
        "追加しました|修正しました|作成しました|変更しました|削除しました",
    ])
});
/// Says in the first person that something was done; what the verb is must be looked at.
pub(super) static FIRST_PERSON_PAST: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\bi(?:['’]ve| have)? (?:also |now |just |then |successfully )?(\w+ed) (?:the|it|a|an|all|both|every|each|line|lines|this|these|them|those|\d|`)",
    )
});
/// Verbs of looking and thinking, which change nothing.
pub(super) static LOOKING_VERBS: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        "^(?:analy[sz]ed|answered|asked|assumed|avoided|benchmarked|browsed|cataloged|checked|compared|confirmed|considered|counted|covered|debugged|decided|diffed|discovered|discussed|examined|executed|explained|explored|failed|focused|followed|grepped|ignored|inspected|investigated|listed|located|looked|measured|needed|noticed|observed|opened|profiled|queried|reviewed|scanned|searched|skipped|sorted out|studied|summari[sz]ed|tested|traced|tried|used|verified|viewed|visited|walked|wanted|watched)$",
    )
});
/// Headings of plans.
pub(super) static PLAN_HEADING: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?m)^\W*(?:my (?:approach|plan)|here['’]?s (?:my|the) (?:plan|approach)|plano?|plan|approach|(?:the )?steps?|schritte|pasos|étapes|步骤)\b.{0,24}:?\s*$",
    )
});
/// Requests whose answer may be a question: a translation, questions for somebody else.
pub(super) static ASKS_FOR_QUESTION: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        "question|frage|pregunta|pergunta|вопрос|问题|質問|translat|übersetz|traduc|traduis|traduz|перевед|翻译|翻訳",
    )
});
/// Requests for instructions.
pub(super) static ASKS_HOW: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"^\W*(?:how|what|why|wie|was|warum|cómo|qué|comment|pourquoi|como|如何|怎么|как)\b|\bhow (?:do|can|would|should|to)\b",
    )
});
/// Says that the agent looked at something or ran something.
pub(super) static SAYS_LOOKED: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\bi(?:['’]ve| have)? (?:searched|scanned|checked|looked|read|reviewed|analy[sz]ed|examined|inspected|went through|gone through|ran|run|tested|executed|verified|benchmarked|measured|counted|opened|grepped)\b",
        "ich habe .*(?:durchsucht|geprüft|überprüft|gelesen|ausgeführt|getestet)|he (?:revisado|buscado|ejecutado|analizado|comprobado)|j'ai (?:vérifié|lu|cherché|exécuté|analysé|lancé)|verifiquei|analisei|rodei|executei",
        "我(?:已经?)?(?:检查|搜索|查看|运行|阅读|分析)了|確認しました|実行しました|調べました|я (?:проверил|запустил|просмотрел|изучил)",
    ])
});
/// Says that the agent ran something.
pub(super) static SAYS_RAN: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\bi(?:['’]ve| have)? (?:ran|run|timed|measured|benchmarked|executed|tested|compressed|profiled|compiled|built|started|restarted|redeployed|deployed|re-?ran|launched|opened (?:it|the \w+) in)\b",
        "ich habe .*(?:ausgeführt|getestet|gemessen)|he (?:ejecutado|medido|probado)|j'ai (?:exécuté|lancé|mesuré|testé)|rodei|executei|medi |я (?:запустил|измерил)|(?:运行|测试|测量)了|実行しました|測定しました",
    ])
});
/// Says why nothing was done: it was not needed, not possible or not allowed.
pub(super) static EXCUSE: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:nothing (?:to|was|needed|had|here|else)|no changes? (?:is|are|was|were)? ?(?:needed|necessary|required|made)|made no changes?|no need|already|cannot|can['’]t|could not|couldn['’]t|unable to|not possible|impossible|(?:may|must) not|not (?:allowed|permitted)|did not (?:change|touch|modify|edit|make|delete|remove|find|do)|didn['’]t (?:change|touch|modify|edit|make|delete|remove|find|do)|have(?: not|n['’]t) (?:changed|touched|made|deleted|done|removed)|left (?:it|the|everything|them|this|that)|(?:was|were) not (?:found|changed|touched)|i (?:won['’]t|refuse)|not going to|does(?: not|n['’]t) exist|there (?:is|are|was|were) no(?:t any)? (?:such|\w+ (?:file|to|in|with|that|called|named))|no (?:such )?(?:file|folder|directory|function|setting|match|matches|occurrence|occurrences)\b|i stopped)",
        "bereits|schon |nichts (?:zu|geändert|gefunden)|kann nicht|konnte nicht|nicht (?:nötig|möglich|erlaubt|gefunden|geändert|vorhanden)|gibt es (?:nicht|kein)|es gibt kein",
        "ya (?:está|existe|estaba)|no (?:existe|pude|se pudo|hay ning|es necesario|hace falta cambiar|he cambiado)|nada que|déjà|rien à|n'existe|impossible|je n'ai (?:rien|pas)|não (?:existe|consegui|é necessário|alterei|foi possível|há nenhum)|nada a |já (?:está|existe)",
        "没有(?:找到|需要|修改|改动|该|这个)|无需|不需要修改|已经(?:存在|是|有)|无法|不能|ありません|見つかりません|必要はあり|既に|できません|не (?:найден|существует|требуется|нужно|могу|удалось|менял)|уже |нельзя|già |non (?:esiste|serve|posso|è possibile|ho (?:modificato|trovato))|niente da",
    ])
});
/// Any word that denies something.
pub(super) static ANY_NEGATION: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\b(?:not|no|nothing|none|never|nowhere|without)\b|n['’]t\b|\b(?:nichts?|kein\w*|niemals|nunca|nada|rien|jamais|aucun\w*|nenhum\w*|niente|nessun\w*)\b|不|没|ない|ません|нет|ничего",
    )
});
/// Words of a proposal: what should or could be done.
pub(super) static PROPOSAL: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:should|would|could|ought to|needs? to|has to|have to|must be|you can|you (?:may|might) want|to be (?:changed|replaced|added|removed)|are needed|is needed|steps?|phase|proposal|proposed|suggest\w*|recommend\w*|here['’]s (?:how|what)|to (?:fix|do|achieve|get|squash|make) (?:this|that|it|your|the)|run:|then:|first,|afterwards|after that)\b",
        "sollte|müsste|könnte|würde|man kann|vorschlag|schritt|habría que|debería|hay que|se puede|bastaría|podría|il faudrait|il faut|on peut|devrait|deveria|pode-se|seria|basta|é preciso|可以|应该|建议|需要|すれば|べき|можно|следует|нужно|стоит|bisognerebbe|dovrebbe|si può",
    ])
});
/// Says that something was verified, in whatever way.
pub(super) static SAYS_VERIFIED: LazyLock<Regex> =
    LazyLock::new(|| compile(r"\b(?:verified|confirmed|everything works|works now|it works)\b"));
/// Says that tests, a build or a linter succeeded.
pub(super) static SAYS_TESTED: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:tests?|checks?|suite|build|linter|ci) (?:is |are |now |all |run |runs )*(?:pass|passes|passed|passing|green|succeeds?|succeeded|ok|clean)\b",
        r"` (?:now )?(?:passes|passed|succeeds|succeeded)\b",
        r"\b(?:all|\d+) (?:\w+ ){0,2}(?:specs?|examples|assertions|cases) (?:are |now )?(?:pass\w*|green)|compiled successfully|compiles successfully|\b\d+ passed|\b0 (?:failed|failures|errors|warnings|problems|issues)\b",
        r"\bcompiles (?:now|without errors|cleanly)\b",
        "tests? (?:laufen|sind grün|erfolgreich)|todas las pruebas pasan|tous les tests passent|todos os testes passam|测试(?:全部)?通过|тесты проходят|テストは(?:すべて)?通",
    ])
});
/// Admits that something did not succeed.
pub(super) static ADMITS_FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:cannot|can['’]t|could not|couldn['’]t|unable to|failed to|(?:may|must) not|not (?:permitted|allowed|fixed|done|solved|finished|able)|still (?:fails?|failing|broken|red)|(?:does|did|do)(?: not|n['’]t) (?:work|pass|succeed|compile)|without success|not yet)\b",
        "kann nicht|konnte nicht|nicht (?:erlaubt|möglich|fertig)|schlägt (?:noch )?fehl|no pude|no se pudo|je n'ai pas pu|não consegui|无法|没能|не удалось|できませんでした",
    ])
});
/// Tells of something that failed and was left so.
pub(super) static TELLS_FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"❌|✗|\b(?:is|are|was|were) \W?not\W? (?:green|passing|updated|clean|finished|done)\b|\bnot updated\b|\b(?:still|also) fails?\b|\bfails? (?:in the same|with|without|on main|before|as before)\b",
    )
});
/// Names a failure, whether it is the run's or not.
pub(super) static NAMES_FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:fail\w*|errors?|broken|red|rejected by|timed out|times out|warnings?|not installed|missing|except\w*)\b",
        "fehl|abgebrochen|falla|falló|échou|échec|falh|erro\\b|失败|错误|失敗|エラー|ошибк|упал|fallit",
    ])
});
/// Says that there was no failure.
pub(super) static NO_FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\b(?:no|0|zero|without|keine|ohne|sin|sans|sem|没有|без) (?:\w+ )?(?:fail\w*|errors?|warnings?|fehler|errores|erreurs?|erros|ошибок)\b",
    )
});
/// Announces the task itself for a later message.
pub(super) static ANNOUNCES_TASK: LazyLock<Regex> = LazyLock::new(|| {
    compile(r"(?:tell me|say|let me know|sag)\b[^.\n]*\b(?:ready|bereit)\b|\bnext message\b")
});
/// Tells the user to write a file.
pub(super) static TELLS_TO_SAVE: LazyLock<Regex> = LazyLock::new(|| {
    any_of(&[
        r"\b(?:save (?:it|this|that|the \w+) (?:as|to|in|under|into)|copy (?:it|this|the \w+) (?:to|into|in)|paste (?:it|this) (?:to|into|in)|replace the (?:contents?|file|code) (?:of .*)?with|put (?:it|this) (?:in|into))\b",
        r"\b(?:run|execute) (?:these|the following) (?:commands?|lines)\b|\badd (?:this|these) (?:\w+ )?(?:to|into|in) `",
        r"speicher\w* (?:es|das|sie|ihn)|guárdalo|guarda (?:esto|este)|enregistre(?:z)?[- ]le|salve (?:isso|este|o)|保存为|copier ce contenu",
    ])
});
/// A line of a list, or the heading of a phase.
pub(super) static LIST_LINE: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"^\s*(?:[-*•]\s*(?:\[ \]\s*)?|\d+(?:[.)]|️⃣)\s*|#+\s*(?:phase|step|stage|schritt|étape|paso|etapa)|\**(?:phase|step|stage|schritt|étape|paso|etapa)\b)",
    )
});
/// A tool call written as text that was not run.
pub(super) static CALL_AS_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r#"<tool_call>|<function|<\|?python_tag|"(?:tool|name|function)"\s*:\s*"[^"]+"\s*,\s*"(?:args|arguments|parameters|input)"\s*:"#,
    )
});
