"""Renames types by definition. usage: rename.py ROOT map.tsv... ; resolves names through use declarations."""
import re,os,sys,collections
ROOT=sys.argv[1]; os.chdir(ROOT)
maps=[l.rstrip('\n').split('\t') for f in sys.argv[2:] for l in open(f) if l.startswith('TYPE\t')]
REN={(m[1],m[2]):m[3] for m in maps}
OLDS={m[2] for m in maps}
def blank(s):
    """comments and literals blanked, same offsets"""
    out=list(s); i=0; n=len(s)
    def fill(a,b):
        for k in range(a,b):
            if out[k]!='\n': out[k]=' '
    while i<n:
        if s.startswith('//',i):
            j=s.find('\n',i); j=n if j<0 else j; fill(i,j); i=j
        elif s.startswith('/*',i):
            d=1;j=i+2
            while j<n and d:
                if s.startswith('/*',j): d+=1;j+=2
                elif s.startswith('*/',j): d-=1;j+=2
                else: j+=1
            fill(i,j); i=j
        elif s[i]=='"' or re.match(r'b?r#*"|b"|c"',s[i:i+6]) and (i==0 or not (s[i-1].isalnum() or s[i-1]=='_')):
            m=re.match(r'(b|c)?(r(#*))?"',s[i:])
            if m.group(2) is not None:
                end='"'+m.group(3); j=s.find(end,i+m.end()); j=n if j<0 else j+len(end)
            else:
                j=i+m.end()
                while j<n and s[j]!='"': j+=2 if s[j]=='\\' else 1
                j+=1
            fill(i,j); i=j
        elif s[i]=="'":
            m=re.match(r"'(\\.[^']*|[^'\\])'",s[i:])
            if m: fill(i,i+m.end()); i+=m.end()
            else: i+=1
        else: i+=1
    return ''.join(out)
# files -> module path
mods={}  # modpath tuple -> file
filemod={}
crates={}
for c in sorted(os.listdir('crates')):
    name=c.replace('-','_')
    for base in ('src','tests/it','tests/attack','tests/house','benches','examples'):
        b=f'crates/{c}/{base}'
        if not os.path.isdir(b): continue
        rootname=(name,) if base=='src' else (name+'@'+base,)
        for d,_,fs in os.walk(b):
            for f in fs:
                if not f.endswith('.rs'): continue
                p=os.path.join(d,f); rel=os.path.relpath(p,b)[:-3].split('/')
                if rel[-1] in('mod','lib','main'): rel=rel[:-1]
                mp=rootname+tuple(rel)
                if mp in mods and rel==[]: pass
                mods.setdefault(mp,p); filemod[p]=mp
TEXT={p:open(p).read() for p in filemod}
CODE={p:blank(TEXT[p]) for p in filemod}
DEF=collections.defaultdict(set) # modpath -> names defined
for p,mp in filemod.items():
    for m in re.finditer(r'\b(?:struct|enum|trait|type|union|fn|const|static|mod)\s+(\w+)',CODE[p]): DEF[mp].add(m.group(1))
def usetree(t):
    """yield (path list, alias)"""
    t=t.strip()
    m=re.match(r'^((?:[\w#]+\s*::\s*)*)\{(.*)\}$',t,re.S)
    if m:
        pre=[x.strip() for x in m.group(1).split('::') if x.strip()]
        depth=0;cur='';parts=[]
        for ch in m.group(2):
            if ch=='{':depth+=1
            if ch=='}':depth-=1
            if ch==',' and depth==0: parts.append(cur);cur=''
            else: cur+=ch
        parts.append(cur)
        for q in parts:
            if q.strip():
                for path,al in usetree(q): yield pre+path,al
        return
    m=re.match(r'^(.*?)\s+as\s+(\w+)$',t,re.S)
    al=None
    if m: t,al=m.group(1),m.group(2)
    path=[x.strip() for x in t.split('::') if x.strip()]
    yield path,al or path[-1]
USE=collections.defaultdict(dict); GLOB=collections.defaultdict(list)
for p,mp in filemod.items():
    for m in re.finditer(r'\buse\s+([^;]+);',CODE[p]):
        for path,al in usetree(m.group(1)):
            if path[-1]=='*': GLOB[mp].append(path[:-1])
            elif path[-1]=='self': USE[mp][path[-2]]=path[:-1]
            else: USE[mp][al]=path
CR={c.replace('-','_') for c in os.listdir('crates')}
def absmod(mp,path,depth=0):
    """resolve module path list to modpath tuple or None"""
    cur=None
    for i,x in enumerate(path):
        if i==0:
            if x=='crate': cur=mp[:1]
            elif x=='self': cur=mp
            elif x=='super': cur=mp[:-1]
            elif x in CR and (x,) in mods and x not in DEF[mp]: cur=(x,)
            elif mp+(x,) in mods: cur=mp+(x,)
            elif x in USE[mp] and depth<12:
                r=resolve(mp,x,depth+1)
                if isinstance(r,tuple) and r and r[0]=='mod': cur=r[1]
                else: return None
            else: return None
        elif x=='super': cur=cur[:-1]
        else:
            if cur+(x,) in mods: cur=cur+(x,)
            else:
                r=resolve(cur,x,depth+1)
                if isinstance(r,tuple) and r[0]=='mod': cur=r[1]
                else: return None
    return cur
def typedef(mp,name):
    p=mods.get(mp)
    return p and re.search(r'\b(?:struct|enum|trait|type|union)\s+'+name+r'\b',CODE[p])
def resolve(mp,name,depth=0):
    if depth>14: return None
    if mp in mods and typedef(mp,name): return ('def',mp,name)
    if mp+(name,) in mods: return ('mod',mp+(name,))
    if name in USE.get(mp,{}):
        path=USE[mp][name]
        if len(path)==1:
            if path[0] in CR: return ('mod',(path[0],))
            return resolve(mp,path[0],depth+1) if path[0]!=name else None
        m=absmod(mp,path[:-1],depth+1)
        if m is None:
            # enum variant import or associated?
            return None
        return resolve(m,path[-1],depth+1)
    for g in GLOB.get(mp,[]):
        m=absmod(mp,g,depth+1)
        if m and m!=mp:
            r=resolve(m,name,depth+1)
            if r: return r
    return None
edits=collections.defaultdict(list)
def newname(r):
    if r and r[0]=='def': return REN.get((mods[r[1]],r[2]))
for p,mp in filemod.items():
    code=CODE[p]; text=TEXT[p]
    # enum variant definition positions
    variants=set()
    for m in re.finditer(r'\benum\s+\w+[^{;]*\{',code):
        i=m.end(); d=1; expect=True
        while i<len(code) and d:
            ch=code[i]
            if ch in '{([': d+=1
            elif ch in '})]': d-=1
            elif d==1 and ch==',': expect=True
            elif d==1 and expect and (ch.isalpha()):
                variants.add(i); expect=False
                while i<len(code) and (code[i].isalnum() or code[i]=='_'): i+=1
                continue
            i+=1
    imports=[(m.start(),m.end()) for m in re.finditer(r'\buse\s+[^;]+;',code)]
    # uses
    for m in re.finditer(r'\b[A-Z]\w*\b',code):
        n=m.group(0)
        if n not in OLDS or m.start() in variants: continue
        before=code[:m.start()]
        inuse=any(a<=m.start()<b for a,b in imports)
        pm=re.search(r'((?:[\w#]+\s*::\s*)+)$',before)
        if inuse:
            # find the full path of this leaf
            a=[a for a,b in imports if a<=m.start()<b][0]; b=[b for a_,b in imports if a_==a][0]
            seg=code[a:b]; off=m.start()-a
            # walk: build the prefix path at off
            stack=[];cur=[];i=re.match(r'use\s+',seg).end();tok=''
            path=None
            while i<len(seg):
                w=re.match(r'[\w]+',seg[i:])
                if w:
                    if i==off: path=sum(stack,[])+cur; break
                    cur=cur+[w.group(0)]; i+=w.end(); continue
                ch=seg[i]
                if ch=='{': stack.append(cur);cur=[]
                elif ch=='}': cur=stack.pop()
                elif ch==',': cur=[]
                i+=1
            if path is None: continue
            if 'as' in path: continue
            path=[x for x in path]
            mod=absmod(mp,path) if path else mp
            if mod is None: continue
            nn=newname(resolve(mod,n))
            if nn: edits[p].append((m.start(),m.end(),nn))
            continue
        if pm:
            path=[x.strip() for x in pm.group(1).split('::') if x.strip()]
            if path[-1][0].isupper(): continue
            mod=absmod(mp,path)
            if mod is None: continue
            nn=newname(resolve(mod,n))
        else:
            nn=newname(resolve(mp,n))
            # aliased import keeps its alias
        if nn: edits[p].append((m.start(),m.end(),nn))
    # doc comments: links [`X`] and `X`
    for m in re.finditer(r'`((?:\w+::)*)([A-Z]\w*)\b',text):
        n=m.group(2)
        if n not in OLDS: continue
        if code[m.start(2):m.end(2)].strip(): continue
        path=[x for x in m.group(1).split('::') if x]
        if path and path[-1][0].isupper(): continue
        mod=absmod(mp,path) if path else mp
        nn=newname(resolve(mod,n)) if mod else None
        if nn: edits[p].append((m.start(2),m.end(2),nn))
total=0
for p,es in edits.items():
    s=TEXT[p]
    for a,b,nn in sorted(set(es),reverse=True): s=s[:a]+nn+s[b:]; total+=1
    open(p,'w').write(s)
print('edits',total,'files',len(edits)); 
defsseen={ (p,TEXT[p][a:b]) for p,es in edits.items() for a,b,_ in es if re.search(r'\b(struct|enum|trait|type|union)\s+$',TEXT[p][:a])}
print('not found:',[k for k in REN if k not in defsseen])
