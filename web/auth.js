// The sign-in: a one-time code becomes a token, kept in this origin's storage. No cookie: cookies
// are shared by every port of the host, and with them by every other local web server.

const KEY = 'gatehouse.auth';

export function loadAuth() {
  try {
    const auth = JSON.parse(localStorage.getItem(KEY));
    return auth && typeof auth.token === 'string' ? auth : null;
  } catch {
    return null;
  }
}

export function saveAuth(auth) {
  localStorage.setItem(KEY, JSON.stringify(auth));
}

// Only the token that was refused is dropped: another tab may have signed in meanwhile.
export function dropAuth(token) {
  const kept = loadAuth();
  if (kept && kept.token === token) localStorage.removeItem(KEY);
}

export function onAuthChange(fn) {
  addEventListener('storage', (event) => {
    if (event.key === KEY || event.key === null) fn(loadAuth());
  });
}

// Takes the code out of the address bar and the history before anything else can see it.
export function takeCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code === null) return null;
  history.replaceState(null, '', location.pathname);
  return code;
}

// A pasted whole link is as good as its code.
export function codeFrom(text) {
  const trimmed = text.trim();
  const at = trimmed.indexOf('#');
  const hash = at < 0 ? trimmed : trimmed.slice(at + 1);
  return new URLSearchParams(hash).get('code') || trimmed;
}
