//! The cost of a regular expression, estimated from its text.

use super::count;

/// The states of one atom: a character class of Unicode has many ranges.
const CLASS: u64 = 4;
const UNICODE_CLASS: u64 = 100;

/// A pattern with lookaround or a back reference is matched by backtracking.
const BACKTRACKING: u64 = 2_000;

/// The estimated number of states of a pattern's automaton: a counted repetition multiplies the states of what it repeats.
pub(super) fn states(pattern: &str) -> u64 {
    // One entry for each open group: its states, and those of its last atom.
    let mut groups: Vec<(u64, u64)> = vec![(0, 0)];
    let mut rest = pattern.chars().peekable();
    while let Some(character) = rest.next() {
        let atom = match character {
            '(' => {
                groups.push((0, 0));
                continue;
            }
            ')' => match groups.pop() {
                Some((states, _)) if !groups.is_empty() => states.saturating_add(1),
                last => {
                    groups.extend(last);
                    1
                }
            },
            '{' => {
                let bounds: String = std::iter::from_fn(|| rest.next_if(|next| *next != '}')).collect();
                rest.next();
                let times = bounds.split(',').filter_map(|bound| bound.trim().parse::<u64>().ok()).max();
                repeat(&mut groups, times.unwrap_or(1));
                continue;
            }
            '*' | '+' | '?' | '|' | '^' | '$' => {
                add(&mut groups, 1);
                continue;
            }
            '[' => {
                let mut atom = CLASS;
                while let Some(inside) = rest.next_if(|next| *next != ']') {
                    atom = atom.saturating_add(1);
                    if inside == '\\' {
                        atom = atom.saturating_add(escaped(rest.next()));
                    }
                }
                rest.next();
                atom
            }
            '\\' => escaped(rest.next()),
            _ => 1,
        };
        if let Some(group) = groups.last_mut() {
            *group = (group.0.saturating_add(atom), atom);
        }
    }
    let states = groups.iter().fold(0, |total: u64, (states, _)| total.saturating_add(*states));
    let backtracks = ["(?=", "(?!", "(?<", "\\1", "\\2", "\\k"].iter().any(|mark| pattern.contains(mark));
    let states = states.saturating_add(count(pattern.len()) / 8);
    if backtracks { states.saturating_mul(BACKTRACKING) } else { states }
}

const fn escaped(character: Option<char>) -> u64 {
    match character {
        Some('p' | 'P') => UNICODE_CLASS,
        Some('w' | 'W' | 's' | 'S' | 'd' | 'D') => CLASS,
        _ => 1,
    }
}

/// Adds states to the open group.
fn add(groups: &mut [(u64, u64)], states: u64) {
    if let Some(group) = groups.last_mut() {
        group.0 = group.0.saturating_add(states);
    }
}

/// Repeats the last atom of the open group.
fn repeat(groups: &mut [(u64, u64)], times: u64) {
    if let Some((states, atom)) = groups.last_mut() {
        let more = atom.saturating_mul(times.saturating_sub(1));
        *states = states.saturating_add(more);
        *atom = atom.saturating_add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::states;

    #[test]
    fn counted_repetitions_multiply() {
        assert!(states(r"^\d{4}-\d{2}-\d{2}$") < 100);
        assert!(states(r"^(a{100}){100}$") >= 10_000);
        assert!(states(r"^([a-z]{1,63}\.){1,10}[a-z]{2,}$") < 10_000);
        assert!(states(r"^(?=.*x)y$") >= 2_000);
        assert!(states(r"((((") < 10);
        assert_eq!(states(r"a{99999999999}{99999999999}{99999999999}"), u64::MAX);
    }
}
