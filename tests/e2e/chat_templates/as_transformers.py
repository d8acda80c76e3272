"""What PyPI's Jinja makes of conversations, set up as transformers 5.24 does for chat templates.

Reads JSON from stdin: `templates` and `conversations` by name, `calls`, each the name of a conversation and whether a generation
prompt is added, and the `variables` of all. Writes JSON: for each template a list of pairs, in the order of calls: `text` and what
was written, `raised` and what the template said to raise_exception, or `failed` and Python's error.
"""

import copy
import datetime
import json
import sys

import jinja2.ext
import jinja2.sandbox

END = "CONTINUE_FINAL_MESSAGE_TAG "
REASONING = ("reasoning_content", "thinking", "reasoning")


class Raised(Exception):
    pass


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("text_of"), [], [], body).set_lineno(line)

    def text_of(self, caller):
        return caller()


def environment():
    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise Raised(message)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return env


def prepared(message):
    """Without what is null; the reasoning has all its names that templates read."""
    message = {name: value for name, value in message.items() if value is not None}
    reasoning = next((message[name] for name in REASONING if name in message), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


def put_end(messages):
    last = messages[-1]
    if isinstance(last["content"], str):
        text = last["content"]
        last["content"] += END
        return text
    part = [part for part in last["content"] if "text" in part][-1]
    text = part["text"]
    part["text"] += END
    return text


def written(template, conversation, prompt, variables):
    messages = [prepared(message) for message in copy.deepcopy(conversation["messages"])]
    last = put_end(messages) if conversation["continues"] else None
    text = template.render({"documents": None, **variables, **(conversation["kwargs"] or {}), "messages": messages,
                            "tools": conversation["tools"], "add_generation_prompt": prompt})
    if last is None:
        return text
    if last.strip() not in text or END.strip() not in text:
        raise ValueError("the last message is not in the text")
    at = text.rindex(END.strip())
    return text[:at] if text[at:].startswith(END) else text[:at].rstrip()


def answer(*arguments):
    try:
        return "text", written(*arguments)
    except Raised as error:
        return "raised", str(error)
    except Exception as error:  # whatever Python says of a template's mistakes
        return "failed", f"{type(error).__name__}: {error}"


def main():
    asked = json.load(sys.stdin)
    env = environment()
    templates = {name: env.from_string(source) for name, source in asked["templates"].items()}
    json.dump({name: [answer(template, asked["conversations"][conversation], prompt, asked["variables"])
                      for conversation, prompt in asked["calls"]] for name, template in templates.items()}, sys.stdout)


if __name__ == "__main__":
    main()
