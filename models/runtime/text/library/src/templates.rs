//! Chat templates, which write conversations.

use crate::border::LARGEST_BUDGET;
use crate::budget::{within, Failure, Outcome};
use crate::jinja::{environment, prepared, Raised};
use crate::marks::Marker;
use crate::python;
use minijinja::{Environment, Error, ErrorKind, Value};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

const MIB: usize = 1 << 20;
/// The most instructions of a template; a request adds FUEL_OF_A_BYTE for each of its bytes.
const FUEL: u64 = 10_000_000;
const FUEL_OF_A_BYTE: u64 = 200;
/// TIME limits processor time; real templates take a few milliseconds. PATIENCE is how long a caller waits: it ends the
/// wait for work that neither allocates nor is counted as instructions.
const TIME: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(15);
/// Values may be nested as deep as fuel allows, and to free them takes stack. Memory that is not touched costs nothing.
const STACK: usize = 256 * MIB;
const MOST_AT_WORK: usize = 256;
const MOST_LEFT_ALONE: usize = 2;
/// How long a template may take in the trial run at start (wants_parts).
const PATIENCE_AT_START: Duration = Duration::from_secs(2);
/// Put behind the message that is to be continued, to find where to cut what the template writes.
const END: &str = "CONTINUE_FINAL_MESSAGE_TAG ";
/// Names of the field of a message that holds its reasoning; most templates read the first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

pub struct Source {
    pub name: String,
    /// Names the file in messages.
    pub label: String,
    pub text: String,
}

#[derive(Clone)]
pub struct Templates {
    environment: Environment<'static>,
    names: Vec<String>,
    /// Names of the templates that write a content only if it is a list of parts, as those of models that read images.
    of_parts: Vec<String>,
    variables: Map<String, Json>,
}

pub struct Request {
    pub messages: String,
    pub tools: String,
    pub kwargs: String,
    pub name: String,
    pub add_generation_prompt: bool,
    pub continue_final_message: bool,
}

pub struct Written {
    pub text: String,
    /// The mark, if the text may contain it (marks.rs).
    pub mark: Option<char>,
}

static AT_WORK: AtomicUsize = AtomicUsize::new(0);
/// Calls that still run although their caller no longer waits: a single instruction takes too long, and nothing can end
/// it.
static LEFT_ALONE: AtomicUsize = AtomicUsize::new(0);

struct Worker;

impl Worker {
    fn start() -> Outcome<Worker> {
        if LEFT_ALONE.load(Ordering::Relaxed) >= MOST_LEFT_ALONE {
            return Err(Failure::Busy("chat templates that take too long still run".to_string()));
        }
        let worker = Worker;
        if AT_WORK.fetch_add(1, Ordering::Relaxed) < MOST_AT_WORK {
            return Ok(worker);
        }
        Err(Failure::Busy("too many chat templates run at once".to_string()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `call` on a thread with a large stack, and waits for `patience`. If the call takes longer, the result is Busy
/// and the thread goes on alone.
fn apart<T: Send + 'static>(
    bytes: usize,
    patience: Duration,
    call: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    let worker = Worker::start()?;
    let (sender, receiver) = mpsc::channel();
    // Set by the side that is first: the call when it ends, or the caller when it stops waiting.
    let over = Arc::new(AtomicBool::new(false));
    let ended = over.clone();
    let thread = std::thread::Builder::new().name("template".to_string()).stack_size(STACK);
    let spawned = thread.spawn(move || {
        let result = within(bytes, TIME, call);
        drop(worker);
        if ended.swap(true, Ordering::Relaxed) {
            LEFT_ALONE.fetch_sub(1, Ordering::Relaxed);
        }
        let _ = sender.send(result);
    });
    let thread = spawned.map_err(|e| Failure::Internal(format!("no thread for a chat template: {e}")))?;
    match receiver.recv_timeout(patience) {
        Ok(result) => {
            let _ = thread.join();
            result
        }
        Err(_) => {
            LEFT_ALONE.fetch_add(1, Ordering::Relaxed);
            if over.swap(true, Ordering::Relaxed) {
                LEFT_ALONE.fetch_sub(1, Ordering::Relaxed);
            }
            Err(Failure::Busy("the chat template has not ended in time".to_string()))
        }
    }
}

fn described(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// `variables`: a JSON object of variables that all templates can read.
pub fn open(sources: Vec<Source>, variables: &str) -> Outcome<Templates> {
    let variables = serde_json::from_str(variables).map_err(Failure::invalid)?;
    let mut templates = Templates { environment: environment(), names: vec![], of_parts: vec![], variables };
    for source in sources {
        let label = source.label.clone();
        templates = apart(256 * MIB, PATIENCE, move || templates.with(source)).map_err(|failure| match failure {
            Failure::Exhausted(message) => Failure::Exhausted(format!("{label}: {message}")),
            other => other,
        })?;
    }
    templates.of_parts = templates.names.iter().filter(|name| templates.wants_parts(name)).cloned().collect();
    Ok(templates)
}

fn parsed(text: &str, field: &str) -> Outcome<Json> {
    serde_json::from_str(text).map_err(|e| Failure::invalid(format!("{field}: is no JSON: {e}")))
}

impl Request {
    fn messages(&self) -> Outcome<Json> {
        let mut messages = parsed(&self.messages, "messages")?;
        let Json::Array(items) = &mut messages else {
            return Err(Failure::invalid("messages: must be an array of objects"));
        };
        for (index, item) in items.iter_mut().enumerate() {
            let Json::Object(fields) = item else {
                return Err(Failure::invalid(format!("messages: item {index} must be an object")));
            };
            fields.retain(|_, value| !value.is_null());
            name_reasoning(fields);
        }
        Ok(messages)
    }

    fn tools(&self) -> Outcome<Json> {
        if self.tools.is_empty() {
            return Ok(Json::Null);
        }
        let tools = parsed(&self.tools, "tools")?;
        let objects = tools.as_array().map(|items| items.iter().all(Json::is_object));
        match objects {
            Some(true) => Ok(tools),
            Some(false) => Err(Failure::invalid("tools: all items must be objects")),
            None => Err(Failure::invalid("tools: must be an array")),
        }
    }

    fn kwargs(&self) -> Outcome<Json> {
        if self.kwargs.is_empty() {
            return Ok(Json::Object(Map::new()));
        }
        let kwargs = parsed(&self.kwargs, "template_kwargs")?;
        let Json::Object(fields) = &kwargs else {
            return Err(Failure::invalid("template_kwargs: must be an object"));
        };
        for name in ["messages", "tools", "add_generation_prompt", "continue_final_message"] {
            if fields.contains_key(name) {
                let message = format!("template_kwargs: must not have \"{name}\", which the request says itself");
                return Err(Failure::invalid(message));
            }
        }
        Ok(kwargs)
    }
}

/// Gives the reasoning of a message the two names that templates read, `reasoning_content` and `thinking`, as the
/// transformers library does. A reasoning that is null counts as absent.
fn name_reasoning(message: &mut Map<String, Json>) {
    let found = REASONING.iter().find_map(|name| message.get(*name).filter(|value| !value.is_null()));
    let Some(reasoning) = found.cloned() else { return };
    let mut named = Map::new();
    named.insert("thinking".to_string(), reasoning.clone());
    named.append(message);
    named.insert("reasoning_content".to_string(), reasoning);
    *message = named;
}

/// Puts END behind the text of the last message, and returns that text.
fn put_end(messages: &mut Json) -> Outcome<String> {
    let wrong = |what: &str| Failure::invalid(format!("messages: {what} to continue"));
    let last = messages.as_array_mut().and_then(|m| m.last_mut()).ok_or_else(|| wrong("there is none"))?;
    let text = match &mut last["content"] {
        Json::String(text) => text,
        Json::Array(parts) => {
            let part = parts.iter_mut().rev().find_map(|part| match part.get_mut("text") {
                Some(Json::String(text)) => Some(text),
                _ => None,
            });
            part.ok_or_else(|| wrong("the last has no text"))?
        }
        _ => return Err(wrong("the last has no content")),
    };
    let whole = text.clone();
    text.push_str(END);
    Ok(whole)
}

/// Turns each content that is a text into a list of one part.
fn into_parts(messages: &mut Json) {
    for message in messages.as_array_mut().into_iter().flatten() {
        if let Some(Json::String(text)) = message.get_mut("content") {
            let part = serde_json::json!({"type": "text", "text": std::mem::take(text)});
            message["content"] = Json::Array(vec![part]);
        }
    }
}

/// The text before END. A template may have trimmed END's trailing space.
fn cut_at_end(text: &str, last: &str) -> Outcome<String> {
    let missing = || Failure::invalid("messages: the template does not write the last message, which is to be continued");
    if !text.contains(last.trim()) {
        return Err(missing());
    }
    let at = text.rfind(END.trim()).ok_or_else(missing)?;
    let before = &text[..at];
    Ok(if text[at..].starts_with(END) { before } else { before.trim_end() }.to_string())
}

impl Templates {
    fn with(mut self, source: Source) -> Outcome<Templates> {
        let text = prepared(&source.text);
        self.environment.add_template_owned(source.name.clone(), text).map_err(|e| {
            let line = e.line().map_or(String::new(), |line| format!(", line {line}"));
            Failure::invalid(format!("{}{line}: {}", source.label, described(&e)))
        })?;
        self.names.push(source.name);
        Ok(self)
    }

    fn wants_parts(&self, name: &str) -> bool {
        let writes = |as_part| {
            let (templates, name) = (self.clone(), name.to_string());
            apart(16 * MIB, PATIENCE_AT_START, move || Ok(templates.writes(&name, as_part))).unwrap_or(false)
        };
        !writes(false) && writes(true)
    }

    /// Whether the template writes a message's text, given as a string or, with `as_part`, as a part.
    fn writes(&self, name: &str, as_part: bool) -> bool {
        const TEXT: &str = "Good morning";
        let mut messages = serde_json::json!([{"role": "user", "content": TEXT}]);
        if as_part {
            into_parts(&mut messages);
        }
        let context = self.context(messages, Json::Null, &Json::Null, true);
        self.fill(name, context, FUEL / 10).is_ok_and(|text| text.contains(TEXT))
    }

    fn chosen<'a>(&'a self, request: &'a Request) -> Outcome<&'a str> {
        let has = |name: &str| self.names.iter().any(|n| n == name);
        let wanted = match request.name.as_str() {
            "" if !request.tools.is_empty() && has("tool_use") => "tool_use",
            "" => "default",
            name => name,
        };
        if has(wanted) {
            return Ok(wanted);
        }
        let names = self.names.join(", ");
        Err(Failure::invalid(format!("template_name: there is no template \"{wanted}\"; there are: {names}")))
    }

    pub fn write(self: &Arc<Self>, request: Request, specials: Vec<String>) -> Outcome<Written> {
        let size = request.messages.len() + request.tools.len() + request.kwargs.len();
        let templates = self.clone();
        let bytes = (128 * MIB).saturating_add(size.saturating_mul(256)).min(LARGEST_BUDGET);
        apart(bytes, PATIENCE, move || templates.render(&request, &specials, size))
    }

    fn render(&self, request: &Request, specials: &[String], size: usize) -> Outcome<Written> {
        let name = self.chosen(request)?;
        let (mut messages, mut tools, mut kwargs) = (request.messages()?, request.tools()?, request.kwargs()?);
        let specials = specials.iter().map(String::as_str).collect();
        let mut marker = Marker::new(specials, &[&messages, &tools, &kwargs])?;
        for value in [&mut messages, &mut tools, &mut kwargs] {
            marker.value(value);
        }
        let last = if request.continue_final_message { Some(put_end(&mut messages)?) } else { None };
        let prompt = request.add_generation_prompt && last.is_none();
        if self.of_parts.iter().any(|n| n == name) {
            into_parts(&mut messages);
        }
        let fuel = FUEL + FUEL_OF_A_BYTE * size as u64;
        let text = self.fill(name, self.context(messages, tools, &kwargs, prompt), fuel)?;
        let text = match &last {
            Some(last) => cut_at_end(&text, last)?,
            None => text,
        };
        Ok(Written { text, mark: marker.marked.then_some(marker.mark) })
    }

    /// The variables that a template gets.
    fn context(&self, messages: Json, tools: Json, kwargs: &Json, prompt: bool) -> BTreeMap<String, Value> {
        let mut context: BTreeMap<String, Value> =
            self.variables.iter().map(|(name, json)| (name.clone(), python::value(json))).collect();
        context.insert("documents".to_string(), Value::from(()));
        if let Json::Object(fields) = kwargs {
            context.extend(fields.iter().map(|(name, json)| (name.clone(), python::value(json))));
        }
        context.insert("messages".to_string(), python::value(&messages));
        context.insert("tools".to_string(), python::value(&tools));
        context.insert("add_generation_prompt".to_string(), Value::from(prompt));
        context
    }

    fn fill(&self, name: &str, context: BTreeMap<String, Value>, fuel: u64) -> Outcome<String> {
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel));
        let template = environment.get_template(name).map_err(Failure::invalid)?;
        template.render(Value::from_iter(context)).map_err(|e| failure(&e))
    }
}

fn failure(error: &Error) -> Failure {
    if error.kind() == ErrorKind::OutOfFuel {
        return Failure::Exhausted("the chat template runs too long".to_string());
    }
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(found) = cause {
        if let Some(Raised(message)) = found.downcast_ref::<Raised>() {
            return Failure::invalid(format!("the model's chat template refuses the conversation: {message}"));
        }
        cause = found.source();
    }
    let line = error.line().map_or(String::new(), |line| format!(" in line {line}"));
    Failure::invalid(format!("the model's chat template fails{line}: {}", described(error)))
}
