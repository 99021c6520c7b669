// Where we are, who we are, and whether what is shown is live.
import { visibleLine } from './dom.js';
import { clock } from './time.js';

const NAMES = { connecting: 'Connecting\u2026', live: 'Live', reconnecting: 'Reconnecting\u2026' };
const byId = (id) => document.getElementById(id);

export function makeStrip(state, announce, { onRetry, onSignOut }) {
  const strip = byId('strip');
  const banner = byId('banner');
  let alarms = { offline: '', degraded: '' };

  function alarm(part) {
    alarms = { ...alarms, ...part };
    announce.alarm(Object.values(alarms).filter(Boolean).join(' '));
  }

  function showConnection() {
    const { name, since, reason } = state.connection;
    let text = NAMES[name];
    if (name === 'offline') text = `Offline since ${clock(since)} \u2013 decisions are off.`;
    if (name === 'reconnecting' && reason) text += ` ${visibleLine(reason)}`;
    byId('strip-text').textContent = text;
    strip.dataset.state = name;
    byId('retry').hidden = name !== 'offline' && name !== 'reconnecting';
    alarm({ offline: name === 'offline' ? text : '' });
  }

  function showWho() {
    byId('host').textContent = visibleLine(state.host);
    const name = visibleLine(state.identity);
    const role = state.role ? (name ? `${name} (${state.role})` : state.role) : '';
    byId('who').textContent = role ? `\u00b7 signed in as ${role}` : '';
    strip.hidden = !state.auth;
  }

  byId('retry').addEventListener('click', onRetry);
  byId('sign-out').addEventListener('click', onSignOut);
  state.on('connection', showConnection);
  state.on('host', showWho);
  state.on('auth', () => {
    showWho();
    if (!state.auth) alarm({ offline: '', degraded: '' });
    banner.hidden = true;
  });

  return {
    // `text` empty: all is well.
    degraded(text) {
      if (banner.textContent !== text) banner.textContent = text;
      banner.hidden = !text;
      alarm({ degraded: text });
    },
  };
}
