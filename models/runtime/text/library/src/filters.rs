//! Filters and tests of Jinja that minijinja lacks or defines in another way.

use crate::python;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, Value};

pub fn add(env: &mut Environment<'static>) {
    for name in ["length", "count"] {
        env.add_filter(name, length);
    }
    for name in ["escape", "e"] {
        env.add_filter(name, escape);
    }
    env.add_filter("indent", indent);
    env.add_filter("replace", replace);
    env.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    env.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Undefined)
    });
    env.add_test("number", |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
}

fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() { Ok(0) } else { minijinja::filters::length(value) }
}

fn escape(value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let mut out = String::new();
    for c in python::str(value)?.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    Ok(Value::from_safe_string(out))
}

fn replace(value: &Value, old: &Value, new: &Value, count: Option<usize>) -> Result<String, Error> {
    let (text, old, new) = (python::str(value)?, python::str(old)?, python::str(new)?);
    Ok(match count {
        Some(count) => text.replacen(&old, &new, count),
        None => text.replace(&old, &new),
    })
}

/// Unlike minijinja's filter it keeps a line break at the end.
fn indent(
    text: &str,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Result<String, Error> {
    let width = match width {
        Some(width) => width,
        None => named.get::<Option<Value>>("width")?.unwrap_or(Value::from(4)),
    };
    let first = first.or(named.get("first")?).unwrap_or(false);
    let blank = blank.or(named.get("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    let margin = match width.as_str() {
        Some(margin) => margin.to_string(),
        None => " ".repeat(usize::try_from(width)?),
    };
    let mut out = String::new();
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if if i > 0 { blank || !line.is_empty() } else { first } {
            out.push_str(&margin);
        }
        out.push_str(line);
    }
    Ok(out)
}
