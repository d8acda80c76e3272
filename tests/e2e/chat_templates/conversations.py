"""Conversations that the chat templates of published models are given: CONVERSATIONS[name] is a dict of `messages`,
`tools` and `kwargs` (further variables), each of which may be None, and `continues` (the text ends within the last message)."""

import json

CONVERSATIONS = {}


def conversation(name, *messages, tools=None, kwargs=None, continues=False):
    CONVERSATIONS[name] = {"messages": messages, "tools": tools, "kwargs": kwargs, "continues": continues}


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def function(name, description, properties, required=(), **more):
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters, **more}}


def call(name, arguments, number=1):
    return {"id": f"abcdefg0{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*of, **more):
    return {"role": "assistant", "tool_calls": list(of), **more}


def result(content, name="weather", number=1):
    return {"role": "tool", "tool_call_id": f"abcdefg0{number}", "name": name, "content": content}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


SYSTEM = says("system", "You are a helpful assistant.\nBe brief.")
ASKS = says("user", "What is the weather in Zürich?")
SUNNY = says("assistant", "It is sunny.")
ASKS_MORE = says("user", "  And tomorrow?\n")
TALK = (SYSTEM, ASKS, SUNNY, ASKS_MORE)
HARD = ("Ünïcödé 漢字 😀 \u00a0\u200d {{ x }} {% raw %} \\n 'q' \"d\" <b>&amp;", "\n\n  a\t\n", "\r\nu\u2003\u0085 ",
        "a<|im_end|>\n<|im_start|>system b <|im_", "<")

WEATHER = function("weather", "Weather of a city.", {
    "city": {"type": "string", "description": "As \"Zürich\" <or> 'Köln' & more"},
    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
    "days": {"type": "integer", "minimum": 1}}, ["city"])
PYTHON = function("python", "Run code.\nSeveral lines.", {"code": {"type": "string", "description": "The code"}}, ["code"])
NESTED = function("book", "Book a trip", {
    "legs": {"type": "array", "description": "The legs", "items": {"type": "object", "required": ["from", "to"], "properties": {
        "from": {"type": "string"}, "to": {"type": ["string", "null"], "nullable": True},
        "price": {"type": "number", "default": 1.5}}}},
    "flags": {"type": "object", "additionalProperties": {"type": "boolean"},
              "properties": {"window": {"type": "boolean", "default": False}}},
    "either": {"anyOf": [{"type": "integer"}, {"type": "string", "enum": ["a", "b"]}, {"type": "null"}], "description": "Either"},
    "one": {"oneOf": [{"type": "number", "minimum": 0.25, "maximum": 1e20}, {"$ref": "#/$defs/Leg"}]},
    "names": {"type": "array", "items": {"type": "string"}},
    "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
    "anything": {}, "constant": {"const": 5}}, ["legs", "names"], strict=True)
NOW = function("now", "The time", {})
BARE = {"type": "function", "function": {"name": "ping", "description": "Ping"}}
FLAT = {"name": "flat", "description": "No envelope", "parameters": {"type": "object", "properties": {"x": {"type": "number"}}}}
TOOLS = [WEATHER, PYTHON]
HARD_ARGUMENTS = {"city": "Zürich <&> \"x\" 'y'", "days": 2, "ratio": 0.5, "none": None, "big": 1e22, "text": "two\nlines\\",
                  "deep": {"list": [1, 2.0, None, True, "a\nb"], "empty": {}}}
PARIS = {"city": "Paris"}

conversation("user", ASKS)
conversation("system", SYSTEM, ASKS)
conversation("turns", *TALK)
conversation("turns without a system", ASKS, SUNNY, ASKS_MORE)
conversation("hard texts", SYSTEM, *(says(role, text) for text in HARD for role in ("user", "assistant")), ASKS)
conversation("ends with the assistant", SYSTEM, ASKS, SUNNY)
conversation("developer", says("developer", "Speak <French>."), ASKS, SUNNY, ASKS_MORE, tools=TOOLS)
conversation("empty contents", *(says(role, "") for role in ("system", "user", "assistant")), ASKS)
conversation("two systems", SYSTEM, ASKS, says("system", "Change."), ASKS_MORE)
conversation("two users", ASKS, ASKS_MORE)
conversation("two assistants", ASKS, SUNNY, SUNNY, ASKS_MORE)
conversation("starts with the assistant", SUNNY, ASKS)
conversation("a system alone", SYSTEM)
conversation("unknown role", ASKS, says("wizard", "abra"))
conversation("names", says("user", "hi", name="Ann"), says("assistant", "ho", name="Bot"), says("user", "he", name="Bob"))
conversation("many turns", SYSTEM, *(ASKS, SUNNY) * 40, ASKS_MORE)
conversation("no content", {"role": "user"})
conversation("no role", {"content": "x"})
conversation("null", SYSTEM, ASKS, calls(content="text", name="x") | {"tool_calls": None}, ASKS_MORE)

conversation("tools", ASKS, tools=TOOLS)
conversation("tools, turns", *TALK, tools=TOOLS)
conversation("tools, nested", SYSTEM, ASKS, tools=[NESTED, WEATHER])
conversation("tools, one nested", ASKS, tools=[NESTED])
conversation("tools, no parameters", SYSTEM, ASKS, tools=[NOW, WEATHER])
conversation("tools, bare", SYSTEM, ASKS, tools=[BARE])
conversation("tools, flat", SYSTEM, ASKS, tools=[FLAT])
conversation("tools, none", SYSTEM, ASKS, tools=[])

for form in (lambda arguments: arguments, json.dumps):
    label = "call by " + type(form({})).__name__
    for kind, content in ("", {}), (", null", {"content": None}), (", empty", {"content": ""}), (", text", {"content": "I look."}):
        conversation(label + kind, SYSTEM, ASKS, calls(call("weather", form(HARD_ARGUMENTS)), **content), result('{"t": 21.5}'),
                     SUNNY, ASKS_MORE, tools=TOOLS)
    conversation(label + ", simple", ASKS, calls(call("weather", form(PARIS)), content=""), result("sunny"), tools=TOOLS)
    conversation(label + ", two", SYSTEM, ASKS,
                 calls(call("weather", form(PARIS)), call("python", form({"code": "print(1)"}), 2), content=""), result("sunny"),
                 result("1\n", "python", 2), SUNNY, ASKS_MORE, tools=TOOLS)
    conversation(label + ", again", ASKS, calls(call("weather", form(PARIS)), content=""), result("sunny"),
                 calls(call("weather", form({"city": "Rome"}), 3), content="Next"), result("rain", number=3), tools=TOOLS)
    conversation(label + ", no arguments", ASKS, calls(call("now", form({})), content=""), result("12:00", "now"), tools=[NOW])
    conversation(label + ", reasoning", ASKS, calls(call("weather", form(PARIS)), content="", reasoning_content="I must look."),
                 result("sunny"), says("assistant", "Done.", reasoning_content="So."), ASKS_MORE, tools=TOOLS)
conversation("ends with a call", ASKS, calls(call("weather", PARIS), content=""), tools=TOOLS)
conversation("a call, but no tools", ASKS, calls(call("weather", PARIS), content=""), result("sunny"))
conversation("no calls", ASKS, calls(content="text"), ASKS_MORE, tools=TOOLS)
conversation("old calls", ASKS, says("assistant", "", function_call={"name": "weather", "arguments": "{}"}),
             {"role": "function", "name": "weather", "content": "21"}, tools=TOOLS)
for kind, content in (("an object", {"t": 21.5, "ok": True, "list": [None]}), ("parts", parts("sunny", "warm")),
                      ("JSON", '{"ä": "<é>\\n"}\n')):
    conversation(f"result is {kind}", ASKS, calls(call("weather", PARIS), content=""), result(content), tools=TOOLS)
conversation("result without a name", ASKS, calls(call("weather", PARIS), content=""),
             {"role": "tool", "tool_call_id": "abcdefg01", "content": "sunny"}, tools=TOOLS)
conversation("result with another id", ASKS, calls(call("weather", PARIS) | {"id": "call_1"}, content=""),
             {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}, tools=TOOLS)

conversation("parts", *(says(role, parts("One, ", "two. ")) for role in ("system", "user", "assistant", "user")))
conversation("parts of the user", SYSTEM, says("user", parts("One, it's \u00a0", "two.")))
conversation("image", SYSTEM, says("user", [{"type": "image", "image": "x"}, *parts("What is it?")]))
conversation("images", says("user", [*parts("What?"), *[{"type": "image_url", "image_url": {"url": "http://x/y.png"}}] * 2]))
conversation("video and audio", says("user", [{"type": "video", "video": "v"}, {"type": "audio", "audio": "a"}, *parts("What?")]))
conversation("unknown part", says("user", [{"type": "smell", "smell": "s"}, *parts("What?")]))

THOUGHT = says("assistant", "It is sunny.", reasoning_content="The user asks.\n\nI look.")
WRITTEN_THOUGHT = says("assistant", "<think>\nHm, so.\n</think>\n\nIt is sunny.")
conversation("reasoning", SYSTEM, ASKS, THOUGHT, ASKS_MORE)
conversation("reasoning at the end", SYSTEM, ASKS, THOUGHT)
conversation("reasoning by its other name", SYSTEM, ASKS, says("assistant", "It is sunny.", reasoning="Hm."), ASKS_MORE)
conversation("reasoning in the text", SYSTEM, ASKS, WRITTEN_THOUGHT, ASKS_MORE)
conversation("reasoning in the text at the end", SYSTEM, ASKS, WRITTEN_THOUGHT)
for effort, on in (("none", False), ("low", True), ("high", True)):
    thinking = {"enable_thinking": on, "thinking": on, "reasoning_effort": effort, "clear_thinking": not on}
    conversation(f"thinking {effort}", SYSTEM, ASKS, kwargs=thinking)
    conversation(f"thinking {effort}, turns", SYSTEM, ASKS, THOUGHT, ASKS_MORE, tools=TOOLS, kwargs=thinking)
conversation("thinking null", SYSTEM, ASKS, kwargs={"enable_thinking": None, "thinking": None})
conversation("thinking budget", SYSTEM, ASKS, kwargs={"thinking_budget": 512, "thinking_mode": "on", "add_vision_id": True})

DOCUMENTS = [{"title": "Zürich", "text": "A city.", "doc_id": 1}, {"title": "Rain", "text": "It is wet.\n", "doc_id": 2}]
conversation("documents", SYSTEM, ASKS, kwargs={"documents": DOCUMENTS})
conversation("documents, turns", *TALK, tools=TOOLS, kwargs={
    "documents": DOCUMENTS, "citation_mode": "accurate", "safety_mode": "STRICT", "citations": True,
    "controls": {"citations": True, "length": "long", "originality": "extractive"}})
conversation("dates", SYSTEM, ASKS, tools=TOOLS, kwargs={
    "date_string": "01 Jan 2026", "today": "2026-01-01", "current_date": "2026-01-01", "tools_in_user_message": False,
    "builtin_tools": ["browser", "python"], "model_identity": "You are X."})
conversation("built-in tools", SYSTEM, ASKS, tools=TOOLS, kwargs={
    "builtin_tools": ["brave_search", "code_interpreter"], "tools_in_user_message": True})
conversation("response format", SYSTEM, ASKS, kwargs={
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": FLAT["parameters"]}}})
conversation("continues", SYSTEM, ASKS, says("assistant", "It is "), continues=True)
conversation("continues parts", SYSTEM, ASKS, says("assistant", parts("It", " is ")), continues=True)
