//! The functions of text_library.h, and its types.

use crate::budget::{within, Failure, Outcome, Room};
use crate::tokenizer::{self, TextTokenizer};
use crate::tokens::Token;
use std::ffi::c_void;
use std::time::Duration;

const OK: i32 = 0;
const MIB: usize = 1 << 20;
/// The largest memory budget of one call, in bytes.
pub const LARGEST_BUDGET: usize = 2048 * MIB;
/// The time limit for loading a file; real ones take seconds.
const LOADING: Duration = Duration::from_secs(60);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    data: *const u8,
    size: usize,
}

impl Text {
    fn of(bytes: &[u8]) -> Text {
        Text { data: bytes.as_ptr(), size: bytes.len() }
    }

    pub fn size(self) -> usize {
        self.size
    }

    /// # Safety
    /// The memory it points to must outlive the result.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        std::slice::from_raw_parts(self.data, self.size)
    }

    /// # Safety
    /// The memory it points to must outlive the result.
    pub unsafe fn text<'a>(self) -> Outcome<&'a str> {
        std::str::from_utf8(self.bytes()).map_err(|e| Failure::invalid(format!("is not valid UTF-8: {e}")))
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct TextSink {
    context: *mut c_void,
    text: extern "C" fn(*mut c_void, *const u8, usize),
}

impl TextSink {
    pub fn put(self, text: &str) {
        (self.text)(self.context, text.as_ptr(), text.len());
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct IdSink {
    context: *mut c_void,
    ids: extern "C" fn(*mut c_void, *const u32, usize),
}

impl IdSink {
    pub fn put(self, ids: &[u32]) {
        (self.ids)(self.context, ids.as_ptr(), ids.len());
    }
}

#[repr(C)]
pub struct TokenizerInfo {
    id_count: u64,
    begin_id: i64,
    strips_space: i32,
}

#[repr(C)]
pub struct SinkToken {
    id: u32,
    special: i32,
    run_byte: i32,
    bytes: Text,
    first: Text,
}

/// The code that a call returns for `outcome`; the message of a failure goes to `error`.
pub fn status(outcome: Outcome<()>, error: TextSink) -> i32 {
    let (code, message) = match outcome {
        Ok(()) => return OK,
        Err(Failure::Invalid(message)) => (1, message),
        Err(Failure::Exhausted(message)) => (2, message),
        Err(Failure::Internal(message)) => (3, message),
        Err(Failure::Busy(message)) => (4, message),
    };
    error.put(&message);
    code
}

/// Runs a call on a text of `size` bytes, with limits of memory and time that grow with it. Reading prose takes a
/// microsecond and 90 bytes of memory for each byte of text, and three times as much if each character is a token.
pub fn on_text<T>(size: usize, call: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let _room = Room::take(size)?;
    let time = Duration::from_secs(3) + Duration::from_micros(10) * u32::try_from(size).unwrap_or(u32::MAX);
    within((256 * MIB).saturating_add(size.saturating_mul(512)).min(LARGEST_BUDGET), time, call)
}

#[no_mangle]
unsafe extern "C" fn tvq_text_tokenizer_open(
    json: Text,
    opened: *mut *mut TextTokenizer,
    info: *mut TokenizerInfo,
    error: TextSink,
) -> i32 {
    let json = json.bytes();
    let outcome = within((1024 * MIB).saturating_add(json.len().saturating_mul(64)), LOADING, || {
        let tokenizer = tokenizer::open(json)?;
        *info = TokenizerInfo {
            id_count: tokenizer.id_count(),
            begin_id: tokenizer.begin_id()?.map_or(-1, i64::from),
            strips_space: i32::from(tokenizer.strips_space()),
        };
        *opened = Box::into_raw(Box::new(tokenizer));
        Ok(())
    });
    status(outcome, error)
}

#[no_mangle]
unsafe extern "C" fn tvq_text_tokenizer_close(tokenizer: *mut TextTokenizer) {
    drop(Box::from_raw(tokenizer));
}

#[no_mangle]
unsafe extern "C" fn tvq_text_tokenizer_tokens(
    tokenizer: *const TextTokenizer,
    context: *mut c_void,
    sink: extern "C" fn(*mut c_void, *const SinkToken),
    error: TextSink,
) -> i32 {
    let each = |id: u32, token: &Token| {
        let token = SinkToken {
            id,
            special: i32::from(token.special),
            run_byte: i32::from(token.run_byte),
            bytes: Text::of(&token.bytes),
            first: Text::of(&token.first),
        };
        sink(context, &token);
    };
    status(within(4096 * MIB, LOADING, || (*tokenizer).tokens(each)), error)
}

#[no_mangle]
unsafe extern "C" fn tvq_text_tokenizer_id(tokenizer: *const TextTokenizer, token: Text) -> i64 {
    let id = within(MIB, LOADING, || Ok((*tokenizer).id_of(token.text()?)));
    id.ok().flatten().map_or(-1, i64::from)
}

#[no_mangle]
unsafe extern "C" fn tvq_text_tokenizer_encode(
    tokenizer: *const TextTokenizer,
    text: Text,
    plain: i32,
    ids: IdSink,
    error: TextSink,
) -> i32 {
    let outcome = on_text(text.size, || {
        let text = text.text()?;
        let result = if plain != 0 { (*tokenizer).encode_plain(text) } else { (*tokenizer).encode(text) };
        ids.put(&result?);
        Ok(())
    });
    status(outcome, error)
}

#[no_mangle]
unsafe extern "C" fn tvq_text_tokenizer_decode(
    tokenizer: *const TextTokenizer,
    ids: *const u32,
    count: usize,
    text: TextSink,
    error: TextSink,
) -> i32 {
    let outcome = on_text(count.saturating_mul(16), || {
        let ids = if count == 0 { &[] } else { std::slice::from_raw_parts(ids, count) };
        text.put(&(*tokenizer).decode(ids)?);
        Ok(())
    });
    status(outcome, error)
}
