"""What the package openai (PyPI) sees of a gateway. Needs nothing but that package; test_openai_python.py says where to go."""

import asyncio
import os
import time
import unittest
from array import array

import openai

URL, GUARDED_URL, KEY = (os.environ[name] for name in ("TVQ_URL", "TVQ_GUARDED_URL", "TVQ_KEY"))
FIXED = {"model": "bytes", "prompt": "Once upon", "seed": 7, "max_tokens": 24, "extra_body": {"ignore_eos": True}}
MESSAGES = [{"role": "user", "content": "Who is there?"}]
TALK = {"model": "chat", "messages": MESSAGES, "seed": 3, "max_tokens": 12, "extra_body": {"ignore_eos": True}}
PATIENCE_SECONDS = 60


class Case(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=URL, api_key="none is needed", max_retries=0)
        self.addCleanup(self.client.close)


class Models(Case):
    def test_list_and_retrieve(self):
        self.assertEqual(sorted(model.id for model in self.client.models.list()), ["bytes", "chat", "encoder"])
        model = self.client.models.retrieve("bytes")
        self.assertEqual((model.id, model.object), ("bytes", "model"))
        self.assertGreater(model.model_extra["vocab_size"], 256)


class Completions(Case):
    def test_whole(self):
        answer = self.client.completions.create(**FIXED)
        self.assertEqual((answer.object, answer.model), ("text_completion", "bytes"))
        self.assertEqual(answer.choices[0].finish_reason, "length")
        usage = answer.usage
        self.assertEqual((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (9, 24, 33))
        self.assertGreaterEqual(usage.prompt_tokens_details.cached_tokens, 0)

    def test_stream_is_the_same(self):
        whole = self.client.completions.create(**FIXED, n=2)
        texts, ends, usage = ["", ""], [], None
        for event in self.client.completions.create(**FIXED, n=2, stream=True, stream_options={"include_usage": True}):
            usage = event.usage or usage
            for choice in event.choices:
                texts[choice.index] += choice.text
                ends += [choice.finish_reason] if choice.finish_reason else []
        self.assertEqual(texts, [choice.text for choice in whole.choices])
        self.assertNotEqual(texts[0], texts[1])
        self.assertEqual(ends, ["length", "length"])
        self.assertEqual((usage.prompt_tokens, usage.completion_tokens), (9, 48))

    def test_stop(self):
        text = self.client.completions.create(**FIXED).choices[0].text
        stop = text[5:8]
        for stream in (False, True):
            answer = self.client.completions.create(**FIXED, stop=["never in it", stop], stream=stream)
            choices = [event.choices[0] for event in answer] if stream else answer.choices
            self.assertEqual("".join(choice.text for choice in choices), text[:text.index(stop)])
            self.assertEqual(choices[-1].finish_reason, "stop")

    def test_logprobs(self):
        choice = self.client.completions.create(**FIXED, logprobs=3).choices[0]
        logprobs = choice.logprobs
        self.assertEqual(len(logprobs.tokens), 24)
        self.assertTrue(all(value <= 0 for value in logprobs.token_logprobs))
        for token, value, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs):
            self.assertIn(len(top), (3, 4))  # the token itself, where it is not among the three
            self.assertEqual(top[token], value)

    def test_closing_a_stream_frees_the_server(self):
        stream = self.client.completions.create(model="bytes", prompt="Once", max_tokens=100_000_000, stream=True,
                                                extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        end = time.monotonic() + PATIENCE_SECONDS
        while self.client.get("/server", cast_to=dict)["requests_running"] > 0:
            self.assertLess(time.monotonic(), end, "the server still computes")
            time.sleep(0.01)

    def test_many_streams_at_once(self):
        async def one(client):
            text = ""
            async for event in await client.completions.create(**FIXED, stream=True):
                text += event.choices[0].text
            return text

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=URL, api_key="any") as client:
                return await asyncio.gather(*(one(client) for _ in range(16)))

        texts = asyncio.run(all_of_them())
        self.assertEqual(set(texts), {self.client.completions.create(**FIXED).choices[0].text})


class Chat(Case):
    def test_whole_and_stream(self):
        whole = self.client.chat.completions.create(**TALK, n=2)
        self.assertEqual([choice.message.role for choice in whole.choices], ["assistant"] * 2)
        contents = ["", ""]
        for event in self.client.chat.completions.create(**TALK, n=2, stream=True,
                                                         stream_options={"include_usage": True}):
            for choice in event.choices:
                contents[choice.index] += choice.delta.content or ""
            usage = event.usage
        self.assertEqual(contents, [choice.message.content for choice in whole.choices])
        self.assertEqual(usage, whole.usage)
        self.assertEqual(usage.prompt_tokens, len("User: Who is there?\nTutor:"))

    def test_logprobs(self):
        answer = self.client.chat.completions.create(**TALK, logprobs=True, top_logprobs=2)
        tokens = answer.choices[0].logprobs.content
        self.assertEqual(len(tokens), 12)
        self.assertTrue(all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in tokens))

    def test_the_packages_own_stream_helper(self):
        with self.client.chat.completions.stream(**TALK) as stream:
            said = [event.snapshot for event in stream if event.type == "content.delta"]
        whole = self.client.chat.completions.create(**TALK)
        self.assertEqual(said[-1], whole.choices[0].message.content)


class Embeddings(Case):
    def test_texts_and_ids(self):
        answer = self.client.embeddings.create(model="encoder", input=["5 7 12", "60"])
        self.assertEqual([one.index for one in answer.data], [0, 1])
        self.assertEqual([len(one.embedding) for one in answer.data], [26, 26])
        self.assertEqual((answer.model, answer.usage.prompt_tokens, answer.usage.total_tokens), ("encoder", 4, 4))
        for fields in ({}, {"encoding_format": "float"}, {"dimensions": 26}):
            ids = self.client.embeddings.create(model="encoder", input=[5, 7, 12], **fields)
            self.assertEqual(array("f", ids.data[0].embedding), array("f", answer.data[0].embedding))

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.embeddings.create(model="encoder", input="1", dimensions=8)
        self.assertEqual(caught.exception.param, "dimensions")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.embeddings.create(model="bytes", input="1")
        self.assertEqual(caught.exception.param, "model")


class Sessions(Case):
    def setUp(self):
        super().setUp()
        self.session = self.client.post("/sessions", body={"model": "bytes"}, cast_to=dict)["id"]

    def test_two_calls_say_what_one_says(self):
        greedy = {"model": "bytes", "temperature": 0}
        options = {"ignore_eos": True, "session_id": self.session}
        first = self.client.completions.create(**greedy, prompt="Once", max_tokens=6, extra_body=options)
        self.assertEqual(first.model_extra["session"]["position"], 10)
        rest = ""
        for event in self.client.completions.create(**greedy, prompt="", max_tokens=6, stream=True,
                                                    extra_body=options):
            rest += event.choices[0].text
        self.assertEqual(event.model_extra["session"]["position"], 16)
        whole = self.client.completions.create(**greedy, prompt="Once", max_tokens=12, extra_body={"ignore_eos": True})
        self.assertEqual(first.choices[0].text + rest, whole.choices[0].text)

    def test_version_conflict(self):
        with self.assertRaises(openai.ConflictError):
            self.client.completions.create(model="bytes", prompt="a",
                                           extra_body={"session_id": self.session, "expected_version": 99})

    def test_deleted_session(self):
        self.client.delete(f"/sessions/{self.session}", cast_to=dict)
        with self.assertRaises(openai.NotFoundError):
            self.client.completions.create(model="bytes", prompt="a", extra_body={"session_id": self.session})


class Errors(Case):
    def test_bad_request_names_the_field(self):
        for stream in (False, True):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.client.completions.create(model="bytes", prompt="a", max_tokens=-1, stream=stream)
            self.assertEqual(caught.exception.param, "max_tokens")
            self.assertTrue(caught.exception.request_id)

    def test_unknown_model(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.completions.create(model="none", prompt="a")
        self.assertEqual((caught.exception.code, caught.exception.param), ("model_not_found", "model"))

    def test_wrong_key(self):
        with openai.OpenAI(base_url=GUARDED_URL, api_key="wrong", max_retries=0) as client:
            with self.assertRaises(openai.AuthenticationError):
                client.completions.create(model="bytes", prompt="a", max_tokens=1)

    def test_too_many_requests(self):
        """Refused with an error of its own; with the package's retries it comes through, when the answer says so."""
        with openai.OpenAI(base_url=GUARDED_URL, api_key=KEY, max_retries=0) as client:
            with self.assertRaises(openai.RateLimitError) as caught:
                while True:
                    client.completions.create(model="bytes", prompt="a", max_tokens=1)
            self.assertGreater(float(caught.exception.response.headers["retry-after-ms"]), 0)
            answer = client.with_options(max_retries=3).completions.create(model="bytes", prompt="a", max_tokens=1)
            self.assertEqual(len(answer.choices), 1)
