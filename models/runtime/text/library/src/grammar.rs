//! Grammars that an output must follow, by llguidance: which tokens may come next.

use crate::budget::{Failure, Outcome};
use llguidance::api::{StopReason, TopLevelGrammar};
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use llguidance::{Matcher as Parser, ParserFactory};
use serde_json::{json, Value};
use std::fmt::Display;
use std::sync::Arc;

/// llguidance asserts that there are no more, behind its own larger limit.
const MOST_SYMBOLS: usize = 60_000;
/// One takes one or two kilobytes.
const MOST_LEXER_STATES: usize = 50_000;

/// The text of one token.
pub struct VocabularyToken {
    pub id: u32,
    /// Without text: no grammar has it.
    pub bytes: Vec<u8>,
}

/// All tokens of a model, ordered for grammars.
pub struct Vocabulary {
    factory: ParserFactory,
}

struct Tokens {
    trie: TokTrie,
}

impl TokenizerEnv for Tokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    // Not as the model's tokenizer has it. Nothing is made of it that the model would see.
    fn tokenize_bytes(&self, text: &[u8]) -> Vec<TokenId> {
        self.trie.greedy_tokenize(text)
    }

    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

/// Bytes that no text has are the name of a token that ends an output.
fn name_of(end: u32) -> Vec<u8> {
    let mut name = vec![TokTrie::SPECIAL_TOKEN_MARKER];
    name.extend_from_slice(format!("<end {end}>").as_bytes());
    name
}

impl Vocabulary {
    /// `ids`: one more than the largest id; `ends`: ids that end an output, at least one.
    pub fn new(ids: u32, tokens: Vec<VocabularyToken>, ends: &[u32]) -> Outcome<Vocabulary> {
        let mut words = vec![Vec::new(); ids as usize];
        for token in tokens {
            let word = words.get_mut(token.id as usize);
            *word.ok_or_else(|| Failure::invalid(format!("token {} is not below {ids}", token.id)))? = token.bytes;
        }
        for &end in ends {
            let word = words.get_mut(end as usize);
            *word.ok_or_else(|| Failure::invalid(format!("end token {end} is not below {ids}")))? = name_of(end);
        }
        let first = *ends.first().ok_or_else(|| Failure::invalid("no token ends an output"))?;
        let trie = TokTrie::from(&TokRxInfo::new(ids, first), &words).with_eos_tokens(ends);
        let tokens: TokEnv = Arc::new(Tokens { trie });
        let mut factory =
            ParserFactory::new(&tokens, InferenceCapabilities::default(), &llguidance::earley::SlicedBiasComputer::general_slices())
                .map_err(Failure::invalid)?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.max_grammar_size = MOST_SYMBOLS;
        limits.max_lexer_states = MOST_LEXER_STATES;
        Ok(Vocabulary { factory })
    }
}

/// What a grammar is written in.
pub enum Language {
    JsonSchema,
    Regex,
    Lark,
}

/// What may stand between the parts of JSON. A weak model would write white space for ever.
const SPACE: &str = r"\x20|\r?\n[\x20\t]{0,40}";

/// A JSON schema with llguidance's options.
fn schema_of(source: &str) -> Outcome<Value> {
    let mut schema = serde_json::from_str(source).map_err(|e| Failure::invalid(format!("is not JSON: {e}")))?;
    if schema == Value::Bool(true) {
        schema = json!({});
    }
    if let Some(members) = schema.as_object_mut() {
        members.entry("x-guidance").or_insert_with(|| json!({"whitespace_pattern": SPACE}));
    }
    Ok(schema)
}

/// A grammar, ready for outputs.
pub struct Grammar {
    start: Parser,
}

impl Grammar {
    pub fn new(vocabulary: &Vocabulary, language: Language, source: &str) -> Outcome<Grammar> {
        let grammar = match language {
            Language::JsonSchema => TopLevelGrammar::from_json_schema(schema_of(source)?),
            Language::Regex => TopLevelGrammar::from_regex(source),
            Language::Lark => TopLevelGrammar::from_lark(source.to_string()),
        };
        let mut start = Parser::new(vocabulary.factory.create_parser(grammar));
        start.compute_mask_or_eos().map_err(wrong)?; // it can be read, and has a first token
        Ok(Grammar { start })
    }

    pub fn begin(&self) -> Matcher {
        Matcher { parser: self.start.deep_clone() }
    }
}

const LONGEST_MESSAGE: usize = 400;

/// What llguidance says is wrong.
fn wrong(error: impl Display) -> Failure {
    let said = error.to_string();
    if said.starts_with("panic:") {
        return Failure::Internal("llguidance gave up".to_string());
    }
    if said.contains(&StopReason::NoExtensionBias.to_string()) {
        return Failure::invalid("the text must go on, and no token of the model has what may follow");
    }
    // It may quote a line of any length.
    Failure::invalid(said.trim_end_matches("\n<non-verbose/>").chars().take(LONGEST_MESSAGE).collect::<String>())
}

/// Where one output stands in its grammar.
pub struct Matcher {
    parser: Parser,
}

impl Matcher {
    /// Sets bit i of `words` if token i may be next, and no other. Only tokens that end it may follow what is complete.
    pub fn mask(&mut self, words: &mut [u32]) -> Outcome<()> {
        let mask = self.parser.compute_mask_or_eos().map_err(wrong)?;
        words.fill(0);
        for (word, found) in words.iter_mut().zip(mask.as_slice()) {
            *word = *found; // llguidance has bits beyond the last token, which are 0
        }
        Ok(())
    }

    /// The output goes on with this token, which the last mask allowed.
    pub fn accept(&mut self, id: u32) -> Outcome<()> {
        self.parser.consume_token(id).map_err(wrong)
    }

}
