"""How a text is split before merges, by llama.cpp's names: sections of the tokenizer.json of the original models."""

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES_ALONE = {**BYTE_LEVEL, "use_regex": False}
DIGITS = {"type": "Digits", "individual_digits": True}


def split(regex: str) -> dict:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def sequence(*parts: dict) -> dict:
    return {"type": "Sequence", "pretokenizers": list(parts)}


CONTRACTION, WORD = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?\p{L}+"
SIGNS, SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+|\s+(?!\S)|\s+"
CAPITALS, SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
# Letters of scripts that have capital letters, as DeepSeek's first models list them.
CASED = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")
CHINESE_AND_KOREAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"

GPT2 = {"pre_tokenizer": BYTE_LEVEL}
DIGIT_BY_DIGIT = {"pre_tokenizer": sequence(DIGITS, BYTE_LEVEL)}
# With ignores_merges a word that is a token becomes that token, whatever the merges would give.
LLAMA3 = {"pre_tokenizer": sequence(split("|".join([CONTRACTION, WORD, r"\p{N}{1,3}", SIGNS, SPACES])), BYTES_ALONE),
          "ignore_merges": True, "adds_begin": True}
QWEN2 = {"pre_tokenizer": sequence(split("|".join([CONTRACTION, WORD, r"\p{N}", SIGNS, SPACES])), BYTES_ALONE),
         "normalizer": {"type": "NFC"}}
TEKKEN = {"pre_tokenizer": sequence(split("|".join([
    rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}*{SMALL}+", rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}+{SMALL}*", r"\p{N}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*", SPACES])), BYTES_ALONE), "ignore_merges": True, "adds_begin": True}
DEEPSEEK_LLM = {"pre_tokenizer": sequence(
    split("[\r\n]"), split(rf"\s?[{CASED}]+"), split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
    split(r"\s+$"), split(CHINESE_AND_KOREAN), DIGITS, BYTES_ALONE)}
DEEPSEEK_CODER = {"pre_tokenizer": sequence(
    split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CHINESE_AND_KOREAN), DIGITS, BYTES_ALONE)}

# adds_begin: the default if a file does not have add_bos_token.
PRE_TOKENIZERS = {
    "gpt-2": GPT2, "smollm": DIGIT_BY_DIGIT, "starcoder": DIGIT_BY_DIGIT, "refact": DIGIT_BY_DIGIT, "llama-bpe": LLAMA3,
    "llama3": LLAMA3, "llama-v3": LLAMA3, "qwen2": QWEN2, "tekken": TEKKEN, "deepseek-llm": DEEPSEEK_LLM,
    "deepseek-coder": DEEPSEEK_CODER,
}
