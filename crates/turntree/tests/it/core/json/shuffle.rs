//! Reorders the members of JSON objects and changes the white space between tokens.

use turntree::core::json::{Reader, Token};

/// JSON as a tree that preserves the order and the spelling of members.
pub(super) enum Tree {
    Leaf(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Tree {
    pub(super) fn read(text: &str) -> Self {
        let mut reader = Reader::new(text);
        let first = reader.next().unwrap();
        Self::after(first, &mut reader)
    }

    fn after<'a>(token: Token<'a>, reader: &mut Reader<'a>) -> Self {
        match token {
            Token::ObjectStart => {
                let mut members = Vec::new();
                while let Some(Token::Key(key)) = reader.next() {
                    let value = reader.next().unwrap();
                    members.push((key.quoted(), Self::after(value, reader)));
                }
                Self::Object(members)
            }
            Token::ArrayStart => {
                let mut items = Vec::new();
                while let Some(token) = reader.next().filter(|token| *token != Token::ArrayEnd) {
                    items.push(Self::after(token, reader));
                }
                Self::Array(items)
            }
            Token::String(text) => Self::Leaf(text.quoted()),
            Token::Number(digits) => Self::Leaf(digits.to_owned()),
            Token::Bool(value) => Self::Leaf(value.to_string()),
            _ => Self::Leaf("null".to_owned()),
        }
    }

    /// Shuffles the members on every level. The last of duplicate members stays the last of them.
    fn shuffle(&mut self, random: &mut fastrand::Rng) {
        match self {
            Self::Leaf(_) => {}
            Self::Array(items) => items.iter_mut().for_each(|item| item.shuffle(random)),
            Self::Object(members) => {
                for (_, value) in members.iter_mut() {
                    value.shuffle(random);
                }
                let mut places: Vec<usize> = (0..members.len()).collect();
                random.shuffle(&mut places);
                let last = |key: &str| members.iter().rposition(|(name, _)| name == key);
                places.sort_by_key(|place| {
                    last(&members[*place].0) == Some(*place) && is_duplicate(members, *place)
                });
                let mut taken: Vec<Option<(String, Self)>> = members.drain(..).map(Some).collect();
                members.extend(places.into_iter().filter_map(|place| taken[place].take()));
            }
        }
    }

    pub(super) fn write(&self, random: &mut fastrand::Rng, out: &mut String) {
        let space = |random: &mut fastrand::Rng| ["", "", "", " ", "\n", "\t\r "][random.usize(0..6)];
        out.push_str(space(random));
        match self {
            Self::Leaf(text) => out.push_str(text),
            Self::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    out.push(if place == 0 { '[' } else { ',' });
                    item.write(random, out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Self::Object(members) => {
                for (place, (key, value)) in members.iter().enumerate() {
                    out.push(if place == 0 { '{' } else { ',' });
                    out.push_str(space(random));
                    out.push_str(key);
                    out.push_str(space(random));
                    out.push(':');
                    value.write(random, out);
                }
                out.push_str(if members.is_empty() { "{}" } else { "}" });
            }
        }
        out.push_str(space(random));
    }
}

fn is_duplicate(members: &[(String, Tree)], place: usize) -> bool {
    members.iter().filter(|(key, _)| *key == members[place].0).count() > 1
}

/// The same JSON with shuffled members and other white space.
pub(super) fn shuffled(text: &str, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tree = Tree::read(text);
    tree.shuffle(&mut random);
    let mut out = String::new();
    tree.write(&mut random, &mut out);
    out
}
