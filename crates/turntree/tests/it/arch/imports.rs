//! The import graph of a crate: which file uses items of which file.
//!
//! A path is followed to the file that defines the item, through `use`, `pub use` and glob imports. A file that only
//! declares modules and re-exports items has no edges: `pub use` counts only if the file itself uses the name.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;

use super::{relative, sources};

/// One source file, which is one module.
#[derive(Debug, Default)]
struct Module {
    file: String,
    /// Names that `mod` declares, with the index of the child module's file.
    children: HashMap<String, usize>,
    parent: Option<usize>,
    /// Names that the file defines.
    items: HashSet<String>,
    imports: Vec<Import>,
    /// Paths and single names in the code outside `use` declarations.
    paths: Vec<Vec<String>>,
}

/// One name that a `use` declaration brings into scope; `*` for a glob import.
#[derive(Debug, Clone)]
struct Import {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// What a path refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Module(usize),
    Item(usize),
}

/// The modules of one crate.
pub(super) struct Crate {
    modules: Vec<Module>,
    /// Macros with `#[macro_export]` are items of the crate root, from any file.
    macros: HashMap<String, usize>,
}

impl Crate {
    /// Reads all files of `<folder>/src`.
    pub(super) fn read(root: &Path, src: &Path) -> Self {
        let mut files = Vec::new();
        sources(src, &mut files);
        files.sort();
        let mut by_path: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        let mut modules = Vec::new();
        let mut macros = HashMap::new();
        for file in &files {
            let inside = relative(src, file);
            let mut path: Vec<String> =
                inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                path.pop();
            }
            by_path.insert(path, modules.len());
            let tokens = tokens(&fs::read_to_string(file).unwrap());
            let mut module = Module { file: relative(root, file), ..Module::default() };
            module.parse(&tokens);
            for window in tokens.windows(3) {
                if window[0] == "macro_rules" && window[1] == "!" {
                    macros.insert(window[2].clone(), modules.len());
                }
            }
            modules.push(module);
        }
        for (path, index) in &by_path {
            let Some((name, parent)) = path.split_last() else { continue };
            let Some(parent) = by_path.get(parent) else { continue };
            modules[*parent].children.insert(name.clone(), *index);
            modules[*index].parent = Some(*parent);
        }
        Self { modules, macros }
    }

    /// The edges of the import graph, as file names.
    pub(super) fn edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (index, module) in self.modules.iter().enumerate() {
            let imports = module.imports.iter().filter(|import| !import.is_public && import.name != "*");
            let paths = imports.map(|import| &import.path).chain(&module.paths);
            let targets = paths.filter_map(|path| self.resolve(index, path, &mut HashSet::new()));
            let used = targets.filter_map(|target| match target {
                Target::Item(file) if file != index => Some(self.modules[file].file.as_str()),
                _ => None,
            });
            edges.entry(&module.file).or_default().extend(used);
        }
        edges
    }

    /// Follows a path from a module to the item or module it names. None for paths into other crates.
    fn resolve(&self, from: usize, path: &[String], seen: &mut HashSet<(usize, String)>) -> Option<Target> {
        let (first, mut rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module(self.root()),
            "self" => Target::Module(from),
            "super" => Target::Module(self.modules[from].parent?),
            name => self.lookup(from, name, seen)?,
        };
        while let (Target::Module(module), Some((name, tail))) = (target, rest.split_first()) {
            rest = tail;
            target = match name.as_str() {
                "super" => Target::Module(self.modules[module].parent?),
                "self" => target,
                name => self.lookup(module, name, seen)?,
            };
        }
        Some(target)
    }

    /// Finds a name in a module: a child module, an item, an import, or a name behind a glob import.
    fn lookup(&self, module: usize, name: &str, seen: &mut HashSet<(usize, String)>) -> Option<Target> {
        if !seen.insert((module, name.to_owned())) {
            return None;
        }
        let found = &self.modules[module];
        if let Some(child) = found.children.get(name) {
            return Some(Target::Module(*child));
        }
        if found.items.contains(name) {
            return Some(Target::Item(module));
        }
        if let Some(import) = found.imports.iter().find(|import| import.name == name)
            && let Some(target) = self.resolve(module, &import.path, seen)
        {
            return Some(target);
        }
        for glob in found.imports.iter().filter(|import| import.name == "*") {
            if let Some(Target::Module(behind)) = self.resolve(module, &glob.path, &mut seen.clone())
                && let Some(target) = self.lookup(behind, name, seen)
            {
                return Some(target);
            }
        }
        let exported = (module == self.root()).then(|| self.macros.get(name)).flatten();
        exported.map(|file| Target::Item(*file))
    }

    fn root(&self) -> usize {
        self.modules.iter().position(|module| module.parent.is_none()).unwrap()
    }
}

impl Module {
    fn parse(&mut self, tokens: &[String]) {
        const DEFINING: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
        let mut at = 0;
        let mut is_public = false;
        while at < tokens.len() {
            let token = tokens[at].as_str();
            match token {
                "pub" => {
                    is_public = true;
                    at += 1;
                    // `pub(in path)`.
                    if tokens.get(at).is_some_and(|next| next == "(") {
                        at += tokens[at..].iter().position(|token| token == ")").unwrap() + 1;
                    }
                    continue;
                }
                "use" => {
                    let end = at + tokens[at..].iter().position(|token| token == ";").unwrap();
                    // `use` also captures lifetimes in `impl Trait + use<'a>`.
                    if tokens[at + 1] != "<" {
                        self.import(&[], &tokens[at + 1..end], is_public);
                        at = end;
                    }
                }
                "macro_rules" => {
                    self.items.extend(tokens.get(at + 2).cloned());
                    at += 2;
                }
                _ if DEFINING.contains(&token) && tokens.get(at + 1).is_some_and(|name| is_name(name)) => {
                    self.items.insert(tokens[at + 1].clone());
                    at += 1;
                }
                _ if is_name(token) => {
                    let mut path = vec![tokens[at].clone()];
                    while tokens.get(at + 1).is_some_and(|next| next == "::")
                        && tokens.get(at + 2).is_some_and(|next| is_name(next))
                    {
                        path.push(tokens[at + 2].clone());
                        at += 2;
                    }
                    // A field, a method or a label is not a name in scope.
                    let before = at.checked_sub(2 * path.len() - 1).map(|before| tokens[before].as_str());
                    if before != Some(".") {
                        self.paths.push(path);
                    }
                }
                _ => {}
            }
            is_public = false;
            at += 1;
        }
    }

    /// Reads a tree of imports: `a::b`, `a::{b, c as d}`, `a::*`.
    fn import(&mut self, prefix: &[String], tree: &[String], is_public: bool) {
        let mut path = prefix.to_vec();
        for (index, token) in tree.iter().enumerate() {
            match token.as_str() {
                "::" => {}
                "{" => {
                    let group = &tree[index + 1..tree.len() - 1];
                    let mut depth = 0;
                    let parts = group.split(|token| {
                        depth += i32::from(token == "{") - i32::from(token == "}");
                        token == "," && depth == 0
                    });
                    parts
                        .filter(|part| !part.is_empty())
                        .for_each(|part| self.import(&path, part, is_public));
                    return;
                }
                "as" => {
                    self.imports.push(Import { name: tree[index + 1].clone(), path, is_public });
                    return;
                }
                "*" => {
                    self.imports.push(Import { name: "*".to_owned(), path, is_public });
                    return;
                }
                "self" if !path.is_empty() => {}
                _ => path.push(token.clone()),
            }
        }
        let name = path.last().cloned().unwrap_or_default();
        self.imports.push(Import { name, path, is_public });
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Splits code into names, `::` and single characters; comments, strings and characters are left out.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").unwrap() + 2
        } else if let Some(length) = raw_string(rest) {
            length
        } else if first == '"' {
            quoted(rest)
        } else if first == '\'' {
            character(rest)
        } else if first.is_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else if first.is_ascii_digit() {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else if rest.starts_with("..") {
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of `r"…"`, `r#"…"#`, with `b` before it or not.
fn raw_string(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = inside.find(|c| c != '#')?;
    let inside = inside[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(text.len() - inside.len() + inside.find(&end)? + end.len())
}

/// The length of `"…"`.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.unwrap().0 + 1
}

/// The length of `'c'`, or of the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((at, _))) => at + 1 + text[at + 1..].find('\'').unwrap() + 1,
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// The strongly connected components of more than one file, largest first.
pub(super) fn circles<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<BTreeSet<&'a str>> {
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|file| (*file, reach(edges, file))).collect();
    let mut circles: Vec<BTreeSet<&str>> = Vec::new();
    for file in edges.keys() {
        if circles.iter().any(|circle| circle.contains(file)) {
            continue;
        }
        let both = reachable[file].iter().filter(|other| reachable[*other].contains(file)).copied();
        let circle: BTreeSet<&str> = both.collect();
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// All files that a file uses, directly or through others.
fn reach<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = edges.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(edges.get(file).into_iter().flatten().copied());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::{Crate, circles};
    use std::fs;

    #[test]
    fn paths_are_followed_through_re_exports_to_the_defining_file() {
        let folder = std::env::temp_dir().join(format!("turntree-imports-{}", std::process::id()));
        let src = folder.join("src");
        fs::create_dir_all(src.join("a")).unwrap();
        fs::write(src.join("lib.rs"), "pub mod a; pub mod b;").unwrap();
        fs::write(src.join("a/mod.rs"), "mod inner; pub use inner::*; pub use self::inner::{One as Uno};")
            .unwrap();
        fs::write(src.join("a/inner.rs"), "pub struct One; fn f(b: &crate::b::Two) { b.x }").unwrap();
        fs::write(
            src.join("b.rs"),
            "// crate::c::X\nuse crate::a; pub struct Two { one: a::Uno, c: char = '\"' }",
        )
        .unwrap();
        let parsed = Crate::read(&folder, &src);

        let edges = parsed.edges();
        let circles = circles(&edges);

        fs::remove_dir_all(&folder).unwrap();
        assert!(edges["src/a/mod.rs"].is_empty() && edges["src/lib.rs"].is_empty(), "{edges:?}");
        assert_eq!(circles.len(), 1, "{edges:?}");
        assert!(circles[0].iter().copied().eq(["src/a/inner.rs", "src/b.rs"]));
    }
}
