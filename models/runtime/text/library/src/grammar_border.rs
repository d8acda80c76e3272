//! The functions of text_library.h for grammars.

use crate::border::{status, Text, TextSink};
use crate::budget::{within, within_and_kept, Failure, Outcome};
use crate::grammar::{Grammar, Language, Matcher, Vocabulary, VocabularyToken};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

const MIB: usize = 1 << 20;
/// To order the tokens of a model; some seconds for the largest vocabularies.
const ORDERING: Duration = Duration::from_secs(60);
/// To make a grammar ready; the largest schemas in use take a tenth of a second.
const COMPILING: Duration = Duration::from_secs(2);
/// For one token; common schemas take 15 ms at most.
const STEP: Duration = Duration::from_secs(1);
/// Rules may refer to rules as deep as a source is long. Memory that is not touched costs nothing.
const STACK: usize = 512 * MIB;
/// The memory of one grammar, or of one output that follows one; common schemas need a twentieth of it at most.
const MOST_OF_ONE: usize = 128 * MIB;
/// That of all together.
const MOST_OF_ALL: isize = 1024 * MIB as isize;
static HELD: AtomicIsize = AtomicIsize::new(0);

/// A value, and how much memory it holds.
pub struct Held<T> {
    value: T,
    bytes: isize,
}

fn check_room() -> Outcome<()> {
    if HELD.load(Ordering::Relaxed) <= MOST_OF_ALL {
        return Ok(());
    }
    Err(Failure::Busy("all grammars together take as much memory as they may".to_string()))
}

impl<T: Send> Held<T> {
    fn new(time: Duration, make: impl FnOnce() -> Outcome<T>) -> Outcome<Held<T>> {
        check_room()?;
        let (value, bytes) = within_and_kept(MOST_OF_ONE, time, make)?;
        HELD.fetch_add(bytes, Ordering::Relaxed);
        Ok(Held { value, bytes })
    }

    /// After a failure the value may only be dropped.
    fn change(&mut self, time: Duration, change: impl FnOnce(&mut T) -> Outcome<()>) -> Outcome<()> {
        check_room()?;
        let left = MOST_OF_ONE.saturating_sub(self.bytes.max(0) as usize);
        let (_, bytes) = within_and_kept(left, time, || change(&mut self.value))?;
        self.bytes += bytes;
        HELD.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        HELD.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn on_large_stack<T: Send>(call: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("grammar".to_string()).stack_size(STACK);
        let spawned = thread.spawn_scoped(scope, call);
        let spawned = spawned.map_err(|e| Failure::Internal(format!("no thread for a grammar: {e}")))?;
        spawned.join().unwrap_or_else(|_| Err(Failure::Internal("a grammar's thread has ended".to_string())))
    })
}

#[repr(C)]
pub struct TokenText {
    id: u32,
    bytes: Text,
}

#[no_mangle]
unsafe extern "C" fn tvq_text_vocabulary_open(
    tokens: *const TokenText,
    count: usize,
    id_count: u32,
    end_ids: *const u32,
    end_count: usize,
    opened: *mut *mut Vocabulary,
    error: TextSink,
) -> i32 {
    let outcome = within(2048 * MIB, ORDERING, || {
        let tokens = if count == 0 { &[] } else { std::slice::from_raw_parts(tokens, count) };
        let owned = tokens.iter().map(|t| VocabularyToken { id: t.id, bytes: t.bytes.bytes().to_vec() });
        let ends = if end_count == 0 { &[] } else { std::slice::from_raw_parts(end_ids, end_count) };
        let vocabulary = Vocabulary::new(id_count, owned.collect(), ends)?;
        *opened = Box::into_raw(Box::new(vocabulary));
        Ok(())
    });
    status(outcome, error)
}

#[no_mangle]
unsafe extern "C" fn tvq_text_vocabulary_close(vocabulary: *mut Vocabulary) {
    drop(Box::from_raw(vocabulary));
}

#[no_mangle]
unsafe extern "C" fn tvq_text_grammar_open(
    vocabulary: *const Vocabulary,
    language: i32,
    source: Text,
    opened: *mut *mut Held<Grammar>,
    error: TextSink,
) -> i32 {
    let vocabulary = &*vocabulary;
    let outcome = source.text().and_then(|source| {
        let language = match language {
            0 => Language::JsonSchema,
            1 => Language::Regex,
            2 => Language::Lark,
            other => return Err(Failure::Internal(format!("there is no language {other} of grammars"))),
        };
        on_large_stack(|| Held::new(COMPILING, || Grammar::new(vocabulary, language, source)))
    });
    status(outcome.map(|grammar| *opened = Box::into_raw(Box::new(grammar))), error)
}

#[no_mangle]
unsafe extern "C" fn tvq_text_grammar_close(grammar: *mut Held<Grammar>) {
    drop(Box::from_raw(grammar));
}

#[no_mangle]
unsafe extern "C" fn tvq_text_grammar_bytes(grammar: *const Held<Grammar>) -> i64 {
    (*grammar).bytes as i64
}

/// Outputs of several threads begin with one grammar.
const _: fn() = || {
    fn any_thread<T: Send + Sync>() {}
    any_thread::<Grammar>();
    any_thread::<Vocabulary>();
};

#[no_mangle]
unsafe extern "C" fn tvq_text_matcher_open(grammar: *const Held<Grammar>, opened: *mut *mut Held<Matcher>, error: TextSink) -> i32 {
    let outcome = Held::new(COMPILING, || Ok((*grammar).value.begin()));
    status(outcome.map(|matcher| *opened = Box::into_raw(Box::new(matcher))), error)
}

#[no_mangle]
unsafe extern "C" fn tvq_text_matcher_close(matcher: *mut Held<Matcher>) {
    drop(Box::from_raw(matcher));
}

#[no_mangle]
unsafe extern "C" fn tvq_text_matcher_mask(matcher: *mut Held<Matcher>, words: *mut u32, count: usize, error: TextSink) -> i32 {
    let outcome = (*matcher).change(STEP, |matcher| matcher.mask(std::slice::from_raw_parts_mut(words, count)));
    status(outcome, error)
}

#[no_mangle]
unsafe extern "C" fn tvq_text_matcher_accept(matcher: *mut Held<Matcher>, id: u32, error: TextSink) -> i32 {
    status((*matcher).change(STEP, |matcher| matcher.accept(id)), error)
}
