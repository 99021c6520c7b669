// The sign-in view: what happened, the one command that helps, and a box for a code.
import { el } from './dom.js';
import { codeFrom } from './auth.js';

const REASONS = {
  none: 'You are not signed in here.',
  expired: 'Your sign-in has ended: its token expired or was revoked.',
  out: 'You are signed out.',
  401: 'This code is not valid. A code works once and for one minute.',
  429: 'Too many attempts. Wait a moment, then try again.',
  failed: 'The service did not answer. Is it running?',
};

export function makeSignIn(onCode) {
  const what = el('p', { id: 'signin-what' });
  const input = el('input', {
    id: 'code',
    type: 'text',
    autocomplete: 'one-time-code',
    autocapitalize: 'off',
    spellcheck: 'false',
    'aria-describedby': 'signin-what',
  });
  const submit = el('button', { type: 'submit' }, 'Sign in');
  const form = el(
    'form',
    {},
    el('label', { for: 'code' }, 'Code, or the whole link'),
    input,
    submit
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const code = codeFrom(input.value);
    input.value = '';
    if (code) onCode(code);
    else input.focus();
  });

  const view = el(
    'section',
    { class: 'signin' },
    el('h2', {}, 'Sign in'),
    what,
    el('p', {}, 'On the machine where gatehouse runs:'),
    el('pre', {}, 'gatehouse open'),
    el('p', {}, 'It opens this page signed in, or prints a link to open. You can paste that here.'),
    form
  );

  return {
    view,
    show(reason) {
      what.textContent = REASONS[reason] || REASONS.failed;
    },
  };
}
