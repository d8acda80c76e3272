//! Values as Python writes them: str, repr and json.dumps.

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use regex::Regex;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The deepest nesting of values that are written.
const DEEPEST: usize = 200;

pub struct Json {
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
    pub ascii: bool,
}

/// A list or a map of a request. As text it is what Python's str gives.
#[derive(Debug)]
struct Shown(DynObject);

impl Object for Shown {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        self.0.repr()
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get_value(key)
    }
    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.0.get_value_by_str(key)
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.enumerate()
    }
    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.0.enumerator_len()
    }
    fn render(self: &Arc<Self>, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&str(&Value::from_dyn_object(self.clone())).map_err(|_| fmt::Error)?)
    }
}

/// The value that a template gets for JSON of a request.
pub fn value(json: &serde_json::Value) -> Value {
    let plain: Value = match json {
        serde_json::Value::Array(items) => items.iter().map(value).collect(),
        serde_json::Value::Object(fields) => fields.iter().map(|(name, field)| (name.as_str(), value(field))).collect(),
        other => Value::from_serialize(other),
    };
    match plain.as_object() {
        Some(object) => Value::from_object(Shown(object.clone())),
        None => plain,
    }
}

fn fail(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn check_depth(depth: usize) -> Result<(), Error> {
    if depth < DEEPEST {
        return Ok(());
    }
    Err(fail("a value is nested too deep to be written"))
}

/// Writes a number as float.__repr__ does.
fn float(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() { "nan" } else if number > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)
}

/// Writes a value as Python's str does.
pub fn str(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_string());
    }
    let mut out = String::new();
    repr(value, 0, &mut out)?;
    Ok(out)
}

fn repr(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    check_depth(depth)?;
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq => {
            out.push('[');
            for (i, item) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(&item, depth + 1, out)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(&key, depth + 1, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, depth + 1, out)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// Whether a character is printable, as str.isprintable says; but false for the space.
fn printable(character: char) -> bool {
    // If a call's budget ends while the expression is compiled, the next call compiles it.
    static OTHERS: OnceLock<Regex> = OnceLock::new();
    let others = OTHERS.get_or_init(|| Regex::new(r"[\p{C}\p{Z}]").expect("a regular expression"));
    !others.is_match(character.encode_utf8(&mut [0; 4]))
}

fn quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if printable(c) => out.push(c),
            c => out.push_str(&match c as u32 {
                code @ ..0x100 => format!("\\x{code:02x}"),
                code @ ..0x10000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push(quote);
}

impl Json {
    pub fn dump(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(value, 0, &mut out)?;
        Ok(out)
    }

    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        check_depth(depth)?;
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&match number(value).as_str() {
                "nan" => "NaN".to_string(),
                "inf" => "Infinity".to_string(),
                "-inf" => "-Infinity".to_string(),
                other => other.to_string(),
            }),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.group(('[', ']'), &items, depth, out, |item, out| self.write(item, depth + 1, out))?
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.group(('{', '}'), &keys, depth, out, |key, out| {
                    match key.as_str() {
                        Some(key) => self.string(key, out),
                        None => self.string(&Json { indent: None, ..Json::default() }.dump(key)?, out),
                    }
                    out.push_str(&self.key_separator);
                    self.write(&value.get_item(key)?, depth + 1, out)
                })?
            }
            other => return Err(fail(format!("what is {other} cannot be written as JSON"))),
        }
        Ok(())
    }

    fn group(
        &self,
        (open, close): (char, char),
        items: &[Value],
        depth: usize,
        out: &mut String,
        mut each: impl FnMut(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |depth: usize, out: &mut String| {
            if let Some(indent) = &self.indent {
                out.push('\n');
                out.push_str(&indent.repeat(depth));
            }
        };
        out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.item_separator);
            }
            line(depth + 1, out);
            each(item, out)?;
        }
        if !items.is_empty() {
            line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ascii && c as u32 > 0x7E) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

impl Default for Json {
    fn default() -> Json {
        Json {
            indent: None,
            item_separator: ", ".to_string(),
            key_separator: ": ".to_string(),
            sort_keys: false,
            ascii: false,
        }
    }
}
