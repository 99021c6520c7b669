// Requests to our own origin, and to nothing else: paths are written here, no address is ever taken
// from the page's URL or from data.

export class ApiError extends Error {
  constructor(status, problem, retryAfterS) {
    super(problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.code = problem.code || '';
    this.retryAfterS = retryAfterS;
  }
}

// No answer: the service may or may not have seen the request.
export class NetworkError extends Error {}

const COMMON = {
  mode: 'same-origin',
  credentials: 'omit',
  cache: 'no-store',
  redirect: 'error',
  referrerPolicy: 'no-referrer',
};

async function readProblem(response) {
  try {
    const body = await response.json();
    return body && typeof body === 'object' ? body : {};
  } catch {
    return {};
  }
}

export function makeApi(getToken, onUnauthorized) {
  async function open(method, path, { body, headers, signal } = {}) {
    const token = getToken();
    const all = { ...headers };
    if (token) all.Authorization = `Bearer ${token}`;
    if (body !== undefined) all['Content-Type'] = 'application/json';
    let response;
    try {
      response = await fetch(path, {
        ...COMMON,
        method,
        headers: all,
        body: body === undefined ? undefined : JSON.stringify(body),
        signal,
      });
    } catch (error) {
      throw new NetworkError(error.message);
    }
    if (response.ok) return response;
    const failure = new ApiError(
      response.status,
      await readProblem(response),
      Number(response.headers.get('Retry-After')) || 0
    );
    // An answer to a token that was replaced meanwhile says nothing about the present one.
    if (response.status === 401 && token && token === getToken()) onUnauthorized();
    throw failure;
  }

  async function call(method, path, options = {}) {
    const signal = options.signal || AbortSignal.timeout(options.timeoutMs || 20000);
    const response = await open(method, path, { ...options, signal });
    try {
      return await response.json();
    } catch (error) {
      throw new NetworkError(error.message);
    }
  }

  const approval = (id) => `/v1/approvals/${encodeURIComponent(id)}`;

  return {
    login: (code) => call('POST', '/v1/login', { body: { code } }),
    status: () => call('GET', '/v1/status'),
    ready: () => call('GET', '/readyz'),
    approval: (id) => call('GET', approval(id)),
    decision: (session, id) =>
      call(
        'GET',
        `/v1/sessions/${encodeURIComponent(session)}/decisions/${encodeURIComponent(id)}`
      ),
    decide: (id, digest, body) =>
      call('PUT', `${approval(id)}/decision`, {
        body,
        headers: { 'If-Match': `"${digest}"` },
        timeoutMs: 60000,
      }),
    extend: (id, seconds) => call('POST', `${approval(id)}/extend`, { body: { seconds } }),

    events: (lastId, signal) =>
      open('GET', '/v1/events', {
        headers: { Accept: 'text/event-stream', ...(lastId ? { 'Last-Event-ID': lastId } : {}) },
        signal,
      }),

    // Every page of the list, or a failure: half a list is never shown as the whole.
    async pending() {
      const items = [];
      const seen = new Set();
      let cursor = null;
      do {
        const query = cursor ? `&cursor=${encodeURIComponent(cursor)}` : '';
        const page = await call('GET', `/v1/approvals?state=pending&limit=200${query}`);
        items.push(...page.items);
        cursor = page.next_cursor;
        if (seen.has(cursor)) throw new NetworkError('the list does not end');
        seen.add(cursor);
      } while (cursor);
      return items;
    },
  };
}
