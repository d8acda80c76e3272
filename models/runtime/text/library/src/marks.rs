//! Puts marks into the strings of a client, so that their text never becomes a special token. A mark is a private-use
//! character. It is put into each piece of text that spells a special token, and behind a string that ends with the
//! beginning of one, since a template may add the rest. Marks go through the template with the text and are removed
//! from the template's output.

use crate::budget::{Failure, Outcome};
use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};
use std::collections::HashSet;

const MARKS: std::ops::RangeInclusive<char> = '\u{E000}'..='\u{F8FF}';

pub struct Marker<'a> {
    specials: Vec<&'a str>,
    search: AhoCorasick,
    /// All proper beginnings of specials, and the length of the longest in bytes.
    beginnings: HashSet<&'a str>,
    longest: usize,
    pub mark: char,
    pub marked: bool,
}

impl<'a> Marker<'a> {
    /// Chooses a mark that none of the values contains.
    pub fn new(specials: Vec<&'a str>, values: &[&Value]) -> Outcome<Marker<'a>> {
        let specials: Vec<&str> = specials.into_iter().filter(|special| !special.is_empty()).collect();
        let mut used = HashSet::new();
        values.iter().for_each(|value| collect(value, &mut used));
        let mark = MARKS.clone().find(|mark| !used.contains(mark));
        let mark = mark.ok_or_else(|| Failure::invalid("messages: they have every private-use character"))?;
        let search = AhoCorasick::new(&specials).map_err(Failure::invalid)?;
        let beginnings: HashSet<&str> = specials
            .iter()
            .flat_map(|special| special.char_indices().skip(1).map(|(size, _)| &special[..size]))
            .collect();
        let longest = beginnings.iter().map(|beginning| beginning.len()).max().unwrap_or(0);
        Ok(Marker { specials, search, beginnings, longest, mark, marked: false })
    }

    pub fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                let marked = std::mem::take(fields).into_iter().map(|(mut key, mut value)| {
                    self.text(&mut key);
                    self.value(&mut value);
                    (key, value)
                });
                *fields = marked.collect::<Map<String, Value>>();
            }
            _ => {}
        }
    }

    fn ends_with_a_beginning(&self, text: &str) -> bool {
        let from = text.len().saturating_sub(self.longest);
        (from..text.len()).any(|at| text.is_char_boundary(at) && self.beginnings.contains(&text[at..]))
    }

    fn text(&mut self, text: &mut String) {
        // One special token may begin within another.
        let first = |which: usize| self.specials[which].chars().next().map_or(0, char::len_utf8);
        let found = self.search.find_overlapping_iter(text.as_str());
        let mut places: Vec<usize> = found.map(|m| m.start() + first(m.pattern().as_usize())).collect();
        if self.ends_with_a_beginning(text) {
            places.push(text.len());
        }
        if places.is_empty() {
            return;
        }
        self.marked = true;
        places.sort_unstable();
        places.dedup();
        let mut marked = String::with_capacity(text.len() + places.len() * self.mark.len_utf8());
        let mut from = 0;
        for place in places {
            marked.push_str(&text[from..place]);
            marked.push(self.mark);
            from = place;
        }
        marked.push_str(&text[from..]);
        *text = marked;
    }
}

/// Adds the private-use characters of all strings in `value` to `used`.
fn collect(value: &Value, used: &mut HashSet<char>) {
    match value {
        Value::String(text) => used.extend(text.chars().filter(|c| MARKS.contains(c))),
        Value::Array(items) => items.iter().for_each(|item| collect(item, used)),
        Value::Object(fields) => {
            for (key, value) in fields {
                used.extend(key.chars().filter(|c| MARKS.contains(c)));
                collect(value, used);
            }
        }
        _ => {}
    }
}
