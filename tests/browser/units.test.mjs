// The parts of the page that need no browser.
import test from 'node:test';
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

// The page's files have no package.json that calls them modules; these three import nothing.
async function load(name) {
  const source = await readFile(new URL(`../../web/${name}`, import.meta.url), 'base64');
  return import(`data:text/javascript;base64,${source}`);
}

const { makeParser } = await load('stream.js');
const { visible, visibleLine } = await load('dom.js');
const { words } = await load('time.js');

function parse(...chunks) {
  const events = [];
  const feed = makeParser((event) => events.push(event));
  chunks.forEach(feed);
  return events;
}

test('events: fields, comments and line ends', () => {
  assert.deepEqual(parse(': beat\n\nid: b-1\nevent: approval.created\ndata: {"id":"apr_1"}\n\n'), [
    { id: 'b-1', type: 'approval.created', data: { id: 'apr_1' } },
  ]);
  assert.deepEqual(parse('event:resync\r\ndata: {}\r\n\r\ndata: {"a":\rdata: 1}\r\r.'), [
    { id: null, type: 'resync', data: {} },
    { id: null, type: 'message', data: { a: 1 } },
  ]);
});

test('events: any cut gives the same events', () => {
  const text = 'id: 1\r\nevent: a\r\ndata: {"x":"\u00e4"}\r\n\r\nevent: b\ndata: 2\n\n';
  const whole = parse(text);
  assert.equal(whole.length, 2);
  for (let i = 0; i <= text.length; i++) {
    assert.deepEqual(parse(text.slice(0, i), text.slice(i)), whole, `cut at ${i}`);
  }
  assert.deepEqual(parse(...text), whole);
});

test('events: what cannot be read is still a hint, and has bounds', () => {
  assert.deepEqual(parse('event: approval.created\ndata: {"id\n\n'), [
    { id: null, type: 'approval.created', data: null },
  ]);
  assert.deepEqual(parse('event: a\ndata: 1\n'), []);
  assert.throws(() => parse('data: ' + 'x'.repeat((1 << 20) + 1)), /too long/);
});

test('text: what cannot be seen is written out', () => {
  assert.equal(visible('a\u202eb'), 'a\\u{202e}b');
  assert.equal(visible('\u001b[31m'), '\\x1b[31m');
  assert.equal(visible('a\u200bb\u2028c\ufeff'), 'a\\u{200b}b\\u{2028}c\\u{feff}');
  assert.equal(visible('\u3164\u115f'), '\\u{3164}\\u{115f}');
  assert.equal(visible('\u{e0041}'), '\\u{e0041}');
  assert.equal(visible(' \u200d'), ' \\u{200d}');
  assert.equal(visible('\ud800'), '\\u{d800}');
  assert.equal(visible(null), '');
});

test('text: every script, emoji and what is already written out stay', () => {
  for (const text of [
    '\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645',
    '\u{1f469}\u200d\u{1f680}',
    'a\tb\nc',
    '\\u{202e}',
    '<b>&amp;',
  ]) {
    assert.equal(visible(text), text);
  }
  assert.equal(visibleLine('a\nb\tc'), 'a\\nb\\tc');
});

test('durations', () => {
  assert.equal(words(250000), '4 min 10 s');
  assert.equal(words(59999), '59 s');
  assert.equal(words(3660000), '1 h 1 min');
  assert.equal(words(-5), '0 s');
});
