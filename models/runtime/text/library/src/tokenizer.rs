//! A tokenizer.json, read by Hugging Face's own library.

use crate::budget::{Failure, Outcome};
use crate::tokens::{Rules, Token};
use std::collections::{HashMap, HashSet};
use tokenizers::models::ModelWrapper;
use tokenizers::tokenizer::AddedVocabulary;
use tokenizers::{AddedToken, Model, OffsetReferential, OffsetType, PreTokenizer, Tokenizer};

/// Texts of more bytes are refused, since positions in some libraries have 32 bits.
const LARGEST_TEXT: usize = 1 << 30;
/// Private-use characters around the substitute names of special tokens. The names are used where a special token's own
/// text must be read as plain text.
const NAME_BEGIN: char = '\u{10FFFC}';
const NAME_END: char = '\u{10FFFD}';

pub struct TextTokenizer {
    library: Tokenizer,
    rules: Rules,
    /// Special tokens by their ids.
    specials: HashMap<u32, String>,
    /// The added tokens, with substitute names for special ones.
    renamed: AddedVocabulary,
    /// From ids of `renamed` to ids of the library; and the substitute names by the library's ids.
    renamed_ids: HashMap<u32, u32>,
    names: HashMap<u32, String>,
}

pub fn open(json: &[u8]) -> Outcome<TextTokenizer> {
    let mut library: Tokenizer = serde_json::from_slice(json).map_err(Failure::invalid)?;
    // As the default in transformers: texts are not cut, not padded, and always have the same ids.
    library.with_truncation(None).map_err(Failure::invalid)?;
    library.with_padding(None);
    if let ModelWrapper::BPE(bpe) = library.get_model() {
        if bpe.dropout.is_some_and(|share| share > 0.0) {
            return Err(Failure::invalid("its model has a dropout: the ids of a text would be random"));
        }
    }
    let rules = Rules::of(&library)?;
    let mut added: Vec<(u32, AddedToken)> = library.get_added_tokens_decoder().into_iter().collect();
    added.sort_by_key(|(id, _)| *id);
    let specials: HashMap<u32, String> =
        added.iter().filter(|(_, t)| t.special).map(|(id, t)| (*id, t.content.clone())).collect();

    let mut names = HashMap::new();
    let tokens: Vec<AddedToken> = added
        .iter()
        .map(|(id, token)| {
            let mut token = token.clone();
            if token.special {
                token.content = format!("{NAME_BEGIN}{id}{NAME_END}");
                names.insert(*id, token.content.clone());
            }
            token
        })
        .collect();
    let mut renamed = AddedVocabulary::new();
    renamed.add_tokens(&tokens, library.get_model(), library.get_normalizer());
    let mut renamed_ids = HashMap::new();
    for ((id, _), token) in added.iter().zip(&tokens) {
        let as_renamed = renamed.token_to_id(&token.content, library.get_model());
        renamed_ids.insert(as_renamed.ok_or_else(|| Failure::invalid("an added token has no id"))?, *id);
    }
    Ok(TextTokenizer { library, rules, specials, renamed, renamed_ids, names })
}

fn too_large(text: &str) -> Outcome<()> {
    if text.len() <= LARGEST_TEXT {
        return Ok(());
    }
    Err(Failure::Exhausted(format!("a text of {} bytes is too large; {LARGEST_TEXT} are the most", text.len())))
}

impl TextTokenizer {
    /// One more than the largest id.
    pub fn id_count(&self) -> u64 {
        let largest = self.library.get_vocab(true).into_values().max();
        largest.map_or(0, |id| u64::from(id) + 1)
    }

    pub fn strips_space(&self) -> bool {
        self.rules.strips_space
    }

    /// Calls `each` for every token of the vocabulary.
    pub fn tokens(&self, mut each: impl FnMut(u32, &Token)) -> Outcome<()> {
        let special: HashSet<&str> = self.specials.values().map(String::as_str).collect();
        let ids: HashSet<u32> = self.library.get_vocab(true).into_values().collect();
        for id in ids {
            let Some(text) = self.library.id_to_token(id) else { continue };
            let mut token = self.rules.token(&text)?;
            token.special = special.contains(text.as_str());
            each(id, &token);
        }
        Ok(())
    }

    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.library.token_to_id(token)
    }

    /// The special token that the file puts before a text, if there is one.
    pub fn begin_id(&self) -> Outcome<Option<u32>> {
        let bare = self.library.encode_fast("a", false).map_err(Failure::invalid)?;
        let whole = self.library.encode_fast("a", true).map_err(Failure::invalid)?;
        let first = whole.get_ids().first().copied();
        let put = whole.get_ids().len() > bare.get_ids().len() && first != bare.get_ids().first().copied();
        Ok(first.filter(|id| put && self.specials.contains_key(id)))
    }

    /// Encodes as `tokenizers` does: text that spells a special token becomes it. No special token is added.
    pub fn encode(&self, text: &str) -> Outcome<Vec<u32>> {
        self.ids(text, self.library.get_added_vocabulary(), |id| id, |_, _| false)
    }

    /// The same, but no text becomes a special token.
    pub fn encode_plain(&self, text: &str) -> Outcome<Vec<u32>> {
        self.encode_renamed(text, 0)
    }

    /// Encodes a text in which text that must not become a special token is marked (marks.rs). Returns the text without
    /// marks, and its ids.
    pub fn encode_marked(&self, text: &str, mark: char) -> Outcome<(String, Vec<u32>)> {
        too_large(text)?;
        let added = self.library.get_added_vocabulary();
        let found = added.extract_and_normalize(self.library.get_normalizer(), text);
        let mut renamed = String::with_capacity(text.len());
        let mut from = 0;
        let mut count = 0;
        for (_, (begin, end), tokens) in found.get_splits(OffsetReferential::Original, OffsetType::Byte) {
            let Some(id) = tokens.as_ref().and_then(|t| t.first()).map(|t| t.id) else { continue };
            let Some(content) = self.specials.get(&id) else { continue };
            // The match may include white space around the token.
            let at = text[begin..end].find(content.as_str()).map_or(begin..end, |i| begin + i..begin + i + content.len());
            renamed.push_str(&text[from..at.start].replace(mark, ""));
            renamed.push_str(&self.names[&id]);
            from = at.end;
            count += 1;
        }
        renamed.push_str(&text[from..].replace(mark, ""));
        drop(found);
        Ok((text.replace(mark, ""), self.encode_renamed(&renamed, count)?))
    }

    fn encode_renamed(&self, text: &str, specials: usize) -> Outcome<Vec<u32>> {
        let mut seen = 0;
        let ids = self.ids(
            text,
            &self.renamed,
            |id| {
                let own = self.renamed_ids.get(&id).copied().unwrap_or(id);
                seen += usize::from(self.specials.contains_key(&own));
                own
            },
            |id, spelled| self.specials.get(&id).is_some_and(|content| content == spelled),
        )?;
        if seen != specials {
            return Err(Failure::invalid(format!(
                "the text has the private-use characters U+{:X} and U+{:X}, which stand for special tokens here",
                NAME_BEGIN as u32, NAME_END as u32
            )));
        }
        Ok(ids)
    }

    /// Encodes as `tokenizers` does, one split at a time. `own` maps the id of an added token. A token of plain text for
    /// which `refused` (its id, its text) is true is not used: its text is encoded in two parts instead.
    fn ids(
        &self,
        text: &str,
        added: &AddedVocabulary,
        mut own: impl FnMut(u32) -> u32,
        refused: impl Fn(u32, &str) -> bool,
    ) -> Outcome<Vec<u32>> {
        too_large(text)?;
        let mut splits = added.extract_and_normalize(self.library.get_normalizer(), text);
        if let Some(pre_tokenizer) = self.library.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut splits).map_err(Failure::invalid)?;
        }
        let mut ids = vec![];
        for (split, _, tokens) in splits.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match tokens {
                Some(tokens) => ids.extend(tokens.iter().map(|token| own(token.id))),
                None => self.plain(split, &refused, &mut ids)?,
            }
        }
        Ok(ids)
    }

    fn plain(&self, split: &str, refused: &impl Fn(u32, &str) -> bool, ids: &mut Vec<u32>) -> Outcome<()> {
        for token in self.library.get_model().tokenize(split).map_err(Failure::invalid)? {
            let spelled = split.get(token.offsets.0..token.offsets.1).unwrap_or_default();
            let first = spelled.chars().next().map_or(0, char::len_utf8);
            if first < spelled.len() && refused(token.id, spelled) {
                self.plain(&spelled[..first], refused, ids)?;
                self.plain(&spelled[first..], refused, ids)?;
            } else {
                ids.push(token.id);
            }
        }
        Ok(())
    }

    pub fn decode(&self, ids: &[u32]) -> Outcome<String> {
        self.library.decode(ids, true).map_err(Failure::invalid)
    }

    pub fn specials(&self) -> impl Iterator<Item = &str> {
        self.specials.values().map(String::as_str)
    }
}
