//! Jinja as the transformers library sets it up for chat templates.

use crate::filters;
use crate::python::{self, Json};
use minijinja::value::{from_args, Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::globals::{cycler, joiner};
use minijinja_contrib::pycompat::unknown_method_callback;

/// The message of an error that a template raised by raise_exception.
#[derive(Debug)]
pub struct Raised(pub String);

impl std::fmt::Display for Raised {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn fail(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

pub fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(|out, _, value| {
        out.write_str(&python::str(value)?)?;
        Ok(())
    });
    env.set_unknown_method_callback(method);
    filters::add(&mut env);
    env.add_filter("tojson", tojson);
    env.add_filter("string", |value: &Value| python::str(value));
    env.add_function("cycler", cycler);
    env.add_function("joiner", joiner);
    env.add_function("raise_exception", |message: Value| -> Result<Value, Error> {
        let message = python::str(&message)?;
        Err(fail(message.clone()).with_source(Raised(message)))
    });
    env.add_function("strftime_now", strftime_now);
    env
}

/// Writes as Python's json.dumps, but with ensure_ascii off by default.
fn tojson(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let mut json = Json::default();
    if let Some(indent) = kwargs.get::<Option<Value>>("indent")?.filter(|v| !v.is_none()) {
        json.indent = Some(match indent.as_str() {
            Some(text) => text.to_string(),
            None => " ".repeat(usize::try_from(indent).map_err(|_| fail("indent must be a number"))?.min(64)),
        });
        json.item_separator = ",".to_string();
    }
    if let Some(pair) = kwargs.get::<Option<Vec<String>>>("separators")? {
        let [item, key] = <[String; 2]>::try_from(pair).map_err(|_| fail("separators must be two strings"))?;
        (json.item_separator, json.key_separator) = (item, key);
    }
    json.sort_keys = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    json.ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    json.dump(value)
}

/// The current local time.
fn strftime_now(format: &str) -> Result<String, Error> {
    let wrong = || fail("strftime_now: the format is not one");
    let format = std::ffi::CString::new(format).map_err(|_| wrong())?;
    let mut buffer = [0u8; 1024];
    // SAFETY: all pointers are to local variables, with their sizes.
    let size = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut time: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&now, &mut time).is_null() {
            return Err(wrong());
        }
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &time)
    };
    Ok(String::from_utf8_lossy(&buffer[..size]).into_owned())
}

/// Calls a method of a Python type.
fn method(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match value.as_str() {
        Some(_) if name == "split" => {
            let (separator, most) = split_args(args)?;
            let most = most.map_or(-1, |most| most as i64);
            unknown_method_callback(state, value, name, &[Value::from(separator), Value::from(most)])
        }
        Some(text) => match string_method(text, name, args)? {
            Some(result) => Ok(result),
            None => unknown_method_callback(state, value, name, args),
        },
        None if value.kind() == ValueKind::Map && name == "copy" => Ok(value.clone()),
        None => unknown_method_callback(state, value, name, args),
    }
}

/// The arguments sep and maxsplit of split, by position or by name.
fn split_args(args: &[Value]) -> Result<(Option<String>, Option<usize>), Error> {
    let (separator, most, named): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = match separator {
        Some(separator) => separator,
        None => named.get::<Option<Value>>("sep")?.unwrap_or_default(),
    };
    let most = most.or(named.get("maxsplit")?);
    named.assert_all_used()?;
    let separator = match separator.as_str() {
        Some("") => return Err(fail("empty separator")),
        Some(text) => Some(text.to_string()),
        None if separator.is_none() || separator.is_undefined() => None,
        None => return Err(fail("a separator must be a string")),
    };
    Ok((separator, most.and_then(|most| usize::try_from(most).ok())))
}

/// Methods of strings that minijinja-contrib lacks; None for others.
fn string_method(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let parts = |at: Option<usize>, size: usize, last: bool| -> Value {
        let parts = match at {
            Some(at) => [&text[..at], &text[at..at + size], &text[at + size..]],
            None if last => ["", "", text],
            None => [text, "", ""],
        };
        parts.into_iter().map(Value::from).collect()
    };
    Ok(Some(match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            parts(text.find(separator), separator.len(), false)
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            parts(text.rfind(separator), separator.len(), true)
        }
        "rsplit" => {
            let (separator, most) = split_args(args)?;
            let mut parts: Vec<&str> = match (separator, most) {
                (Some(separator), Some(most)) => text.rsplitn(most.saturating_add(1), &separator).collect(),
                (Some(separator), None) => text.rsplit(&separator).collect(),
                (None, None) => text.split_whitespace().rev().collect(),
                (None, Some(_)) => return Err(fail("rsplit: maxsplit without a separator is not supported")),
            };
            parts.reverse();
            parts.into_iter().map(Value::from).collect()
        }
        _ => return Ok(None),
    }))
}

/// The template with line ends as `\n`, and with `{% generation %}` blocks as `{% with %}` blocks, which have a scope of
/// their own as well. `{% generation %}` marks what training learns from, and does not change the text.
pub fn prepared(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let inner = &tag[2..end];
        let word = inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let place = inner.find(word).unwrap_or(0);
        let put = match word {
            "generation" => "with",
            "endgeneration" => "endwith",
            _ => {
                out.push_str("{%");
                rest = &tag[2..];
                continue;
            }
        };
        out.push_str("{%");
        out.push_str(&inner[..place]);
        out.push_str(put);
        out.push_str(&inner[place + word.len()..]);
        out.push_str("%}");
        rest = &tag[end + 2..];
    }
    out.push_str(rest);
    out
}
