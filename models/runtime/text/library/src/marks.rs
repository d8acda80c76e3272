//! Marks in what a client sends, so that its text never becomes a special token. A mark is a private-use character
//! within what spells such a token, or behind a beginning of one at the end of a string, to which a template may add
//! the rest. Marks go through the template with the text, and are taken out of what it writes.

use serde_json::{Map, Value};

pub struct Marker<'a> {
    specials: Vec<&'a str>,
    pub mark: char,
    pub marked: bool,
}

impl<'a> Marker<'a> {
    /// With a mark that none of the values has; none if they have them all.
    pub fn new(specials: Vec<&'a str>, values: &[&Value]) -> Option<Marker<'a>> {
        let free = |mark: &char| !values.iter().any(|value| has(value, *mark));
        let mark = ('\u{E000}'..='\u{F8FF}').find(free)?;
        Some(Marker { specials, mark, marked: false })
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

    fn text(&mut self, text: &mut String) {
        let mut places = vec![];
        for special in &self.specials {
            let first = special.chars().next().map_or(0, char::len_utf8);
            // One may begin within another.
            let mut from = 0;
            while let Some(at) = text[from..].find(special) {
                places.push(from + at + first);
                from += at + first;
            }
            let begins = special.char_indices().skip(1).any(|(size, _)| text.ends_with(&special[..size]));
            if begins {
                places.push(text.len());
            }
        }
        places.sort_unstable();
        places.dedup();
        self.marked |= !places.is_empty();
        for place in places.into_iter().rev() {
            text.insert(place, self.mark);
        }
    }
}

fn has(value: &Value, mark: char) -> bool {
    match value {
        Value::String(text) => text.contains(mark),
        Value::Array(items) => items.iter().any(|item| has(item, mark)),
        Value::Object(fields) => fields.iter().any(|(key, value)| key.contains(mark) || has(value, mark)),
        _ => false,
    }
}
