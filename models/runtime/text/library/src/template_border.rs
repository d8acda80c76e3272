//! The functions of text_library.h for chat templates.

use crate::border::{on_text, status, IdSink, Text, TextSink};
use crate::budget::{within, Outcome};
use crate::templates::{self, Request, Source, Templates};
use crate::tokenizer::TextTokenizer;
use std::sync::Arc;
use std::time::Duration;

const MIB: usize = 1 << 20;
const A_WHILE: Duration = Duration::from_secs(60);

#[repr(C)]
pub struct TemplateSource {
    name: Text,
    label: Text,
    source: Text,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct WriteRequest {
    messages: Text,
    tools: Text,
    template_kwargs: Text,
    template_name: Text,
    add_generation_prompt: i32,
    continue_final_message: i32,
}

impl WriteRequest {
    unsafe fn owned(self) -> Outcome<Request> {
        Ok(Request {
            messages: self.messages.text()?.to_string(),
            tools: self.tools.text()?.to_string(),
            kwargs: self.template_kwargs.text()?.to_string(),
            name: self.template_name.text()?.to_string(),
            add_generation_prompt: self.add_generation_prompt != 0,
            continue_final_message: self.continue_final_message != 0,
        })
    }
}

#[no_mangle]
unsafe extern "C" fn tvq_text_templates_open(
    sources: *const TemplateSource,
    count: usize,
    variables: Text,
    opened: *mut *const Templates,
    error: TextSink,
) -> i32 {
    let outcome = within(256 * MIB, A_WHILE, || {
        let sources = if count == 0 { &[] } else { std::slice::from_raw_parts(sources, count) };
        let owned = sources.iter().map(|s| {
            Ok(Source {
                name: s.name.text()?.to_string(),
                label: s.label.text()?.to_string(),
                text: s.source.text()?.to_string(),
            })
        });
        let templates = templates::open(owned.collect::<Outcome<Vec<Source>>>()?, variables.text()?)?;
        *opened = Arc::into_raw(Arc::new(templates));
        Ok(())
    });
    status(outcome, error)
}

#[no_mangle]
unsafe extern "C" fn tvq_text_templates_close(templates: *const Templates) {
    drop(Arc::from_raw(templates));
}

#[no_mangle]
unsafe extern "C" fn tvq_text_templates_write(
    templates: *const Templates,
    tokenizer: *const TextTokenizer,
    request: WriteRequest,
    text: TextSink,
    ids: IdSink,
    error: TextSink,
) -> i32 {
    Arc::increment_strong_count(templates);
    let templates = Arc::from_raw(templates);
    let tokenizer = &*tokenizer;
    let size = request.messages.size() + request.tools.size() + request.template_kwargs.size();
    let written = on_text(size, || {
        let specials = tokenizer.specials().map(str::to_string).collect();
        templates.write(request.owned()?, specials)
    });
    let outcome = written.and_then(|written| {
        on_text(written.text.len(), || {
            let (shown, encoded) = match written.mark {
                Some(mark) => tokenizer.encode_marked(&written.text, mark)?,
                None => {
                    let encoded = tokenizer.encode(&written.text)?;
                    (written.text, encoded)
                }
            };
            text.put(&shown);
            ids.put(&encoded);
            Ok(())
        })
    });
    status(outcome, error)
}
