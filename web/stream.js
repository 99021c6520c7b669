// Server-sent events over fetch: EventSource cannot send a header, and the token goes nowhere else.

const MAX_EVENT_CHARS = 1 << 20;
const SILENCE_MS = 45000; // the service beats at least every 15 s

export function makeParser(onEvent) {
  let rest = '';
  let type = '';
  let data = [];
  let id = null;

  function dispatch() {
    if (data.length || type) {
      let value = null;
      try {
        value = JSON.parse(data.join('\n'));
      } catch {
        // An event we cannot read is still a hint that something changed.
      }
      onEvent({ id, type: type || 'message', data: value });
    }
    type = '';
    data = [];
  }

  function line(text) {
    if (text === '') return dispatch();
    const colon = text.indexOf(':');
    if (colon === 0) return undefined;
    const name = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? '' : text.slice(colon + 1).replace(/^ /, '');
    if (name === 'event') type = value;
    else if (name === 'data') data.push(value);
    else if (name === 'id' && !value.includes('\0')) id = value;
    return undefined;
  }

  return (chunk) => {
    rest += chunk;
    // A CR at the very end may be half of a CR LF: it waits for the next chunk.
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    if (rest.length > MAX_EVENT_CHARS) throw new Error('event too long');
    lines.forEach(line);
  };
}

// Reads until the stream ends (resolves) or breaks (throws).
export async function readStream(api, lastId, signal, { onOpen, onEvent }) {
  const own = new AbortController();
  const abort = () => own.abort();
  signal.addEventListener('abort', abort, { once: true });
  let watchdog = setTimeout(abort, SILENCE_MS);
  try {
    const response = await api.events(lastId, own.signal);
    onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const feed = makeParser(onEvent);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(abort, SILENCE_MS);
      feed(value);
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener('abort', abort);
    own.abort();
  }
}
