//! What each token contributes to a text, according to the decoder of a tokenizer.json.

use crate::budget::{Failure, Outcome};
use tokenizers::decoders::DecoderWrapper;
use tokenizers::{Decoder, Tokenizer};

#[derive(Default)]
pub struct Token {
    pub bytes: Vec<u8>,
    /// The bytes if it is the first token of a text.
    pub first: Vec<u8>,
    /// Whether the token is left out of a text.
    pub special: bool,
    /// Whether the token is a byte that is shown only within a valid run of such tokens (ByteFallback).
    pub run_byte: bool,
}

/// How a list of tokens becomes a text: by steps on each token, and by one way of joining the results.
pub struct Rules {
    steps: Vec<DecoderWrapper>,
    byte_level: bool,
    byte_fallback: bool,
    spaced: bool,
    /// One space at the start of a text is dropped.
    pub strips_space: bool,
}

fn flat(decoder: &DecoderWrapper, out: &mut Vec<DecoderWrapper>) {
    match decoder {
        DecoderWrapper::Sequence(sequence) => sequence.get_decoders().iter().for_each(|d| flat(d, out)),
        other => out.push(other.clone()),
    }
}

fn name(decoder: &DecoderWrapper) -> String {
    let kind = serde_json::to_value(decoder).ok().and_then(|v| v["type"].as_str().map(str::to_string));
    kind.unwrap_or_else(|| "without a type".to_string())
}

impl Rules {
    pub fn of(tokenizer: &Tokenizer) -> Outcome<Rules> {
        let mut all = vec![];
        if let Some(decoder) = tokenizer.get_decoder() {
            flat(decoder, &mut all);
        }
        let mut rules = Rules {
            steps: vec![],
            byte_level: false,
            byte_fallback: false,
            spaced: tokenizer.get_decoder().is_none(),
            strips_space: false,
        };
        let mut joined = false;
        for decoder in all {
            let fused = joined || rules.byte_level;
            match &decoder {
                DecoderWrapper::Fuse(_) => joined = true,
                DecoderWrapper::ByteLevel(_) if !fused && !rules.byte_fallback => rules.byte_level = true,
                DecoderWrapper::ByteFallback(_) if !fused && !rules.byte_fallback => rules.byte_fallback = true,
                DecoderWrapper::Strip(s)
                    if fused && !rules.strips_space && (s.content, s.start, s.stop) == (' ', 1, 0) =>
                {
                    rules.strips_space = true
                }
                DecoderWrapper::Replace(_)
                | DecoderWrapper::Strip(_)
                | DecoderWrapper::Metaspace(_)
                | DecoderWrapper::WordPiece(_)
                    if !fused && !rules.byte_fallback =>
                {
                    rules.steps.push(decoder)
                }
                _ => {
                    let name = name(&decoder);
                    return Err(Failure::invalid(format!("its decoder has a {name} where none is supported")));
                }
            }
        }
        Ok(rules)
    }

    fn form(&self, text: &str, first: bool) -> Outcome<Vec<u8>> {
        // A step depends on whether there is a token before this one, but not on which.
        let mut list = if first { vec![text.to_string()] } else { vec!["a".to_string(), text.to_string()] };
        for step in &self.steps {
            list = step.decode_chain(list).map_err(Failure::invalid)?;
        }
        let text = list.pop().unwrap_or_default();
        if self.spaced && !first {
            return Ok([b" ", text.as_bytes()].concat());
        }
        if self.byte_level {
            let bytes: Option<Vec<u8>> = text.chars().map(byte_of).collect();
            return Ok(bytes.unwrap_or_else(|| text.into_bytes()));
        }
        Ok(text.into_bytes())
    }

    pub fn token(&self, text: &str) -> Outcome<Token> {
        let mut token = Token { bytes: self.form(text, false)?, first: self.form(text, true)?, ..Token::default() };
        if let (true, Some(byte)) = (self.byte_fallback, fallback_byte(&token.bytes)) {
            token = Token { bytes: vec![byte], first: vec![byte], special: false, run_byte: true };
        }
        Ok(token)
    }
}

/// The byte of a token such as `<0x0A>`.
fn fallback_byte(text: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if text.len() == 6 {
        u8::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// The byte for which a character stands in GPT-2's table of bytes as characters.
fn byte_of(character: char) -> Option<u8> {
    let shown = |byte: u32| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let number = character as u32;
    if number < 256 {
        return if shown(number) { Some(number as u8) } else { None };
    }
    // The others follow from U+0100 on, in their order.
    let hidden = (0..256u32).filter(|byte| !shown(*byte)).nth(number as usize - 256)?;
    Some(hidden as u8)
}
