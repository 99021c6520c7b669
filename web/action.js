// The exact action of a card: the command or path, then the change it makes.
import { button, el, visible, visibleLine } from './dom.js';

const FIRST_ROWS = 800; // a longer diff is drawn on demand

const SIGNS = { '+': ['added', '+'], '-': ['removed', '\u2212'], ' ': ['same', ' '] };

function row(line) {
  const [name, sign] = SIGNS[line.kind] || SIGNS[' '];
  const tail =
    (line.cut ? ' \u2026 (line cut)' : '') + (line.no_newline ? ' (no newline at end)' : '');
  return el(
    'tr',
    { class: name },
    el('td', { class: 'n' }, String(line.old ?? '')),
    el('td', { class: 'n' }, String(line.new ?? '')),
    el('td', { class: 'sign' }, sign),
    el('td', { class: 'text' }, visible(line.text), tail && el('em', {}, tail))
  );
}

function rowsOf(file) {
  const rows = [];
  for (const hunk of file.hunks || []) {
    const head = hunk.header || `@@ -${hunk.old_start} +${hunk.new_start} @@`;
    rows.push(() =>
      el('tr', { class: 'hunk' }, el('td', { class: 'text', colspan: 4 }, visibleLine(head.trim())))
    );
    for (const line of hunk.lines || []) rows.push(() => row(line));
  }
  return rows;
}

function fileView(file) {
  const rows = rowsOf(file);
  const body = el('tbody', {}, ...rows.slice(0, FIRST_ROWS).map((make) => make()));
  const left = rows.length - FIRST_ROWS;
  const more =
    left > 0 &&
    button(`Show ${left} more lines`, { class: 'plain' }, (event) => {
      body.append(...rows.slice(FIRST_ROWS).map((make) => make()));
      event.currentTarget.remove();
    });
  const counts = file.binary ? 'binary file' : `+${file.added ?? 0} \u2212${file.removed ?? 0}`;
  return [
    el(
      'table',
      { class: 'diff' },
      el('caption', {}, visibleLine(file.path), ' ', el('span', { class: 'counts' }, counts)),
      el('colgroup', {}, ...['n', 'n', 'sign', ''].map((name) => el('col', { class: name }))),
      body
    ),
    more,
    (file.cut || file.is_cut) &&
      el('p', { class: 'note' }, 'The change is longer than what is shown here.'),
  ];
}

// Where it happens: the folder of a command, the whole path of a file.
function placesOf(approval) {
  const parts = approval.parts?.length ? approval.parts : [approval];
  const shown = parts.map(({ target }) => {
    if (target?.path) return `at ${target.path}`;
    if (target?.from) return `from ${target.from} to ${target.to}`;
    const cwd = target?.cwd || approval.display?.cwd;
    return cwd ? `in ${cwd}` : '';
  });
  return [...new Set(shown)].filter(Boolean).map(visibleLine);
}

// A command's words, each marked as one, so that a blank inside a word shows as such.
function wordsOf(display) {
  const text = visible(display?.text);
  const words = (display?.words || []).map(visible);
  if (words.join(' ') !== text) return [text];
  return words.flatMap((word, i) => [i ? ' ' : '', el('span', { class: 'word' }, word)]);
}

// One scrolling box; its text is all there, however long.
export function actionView(approval) {
  const { display, preview } = approval;
  const box = el('div', {
    class: 'exact',
    role: 'region',
    tabindex: 0,
    'aria-label': 'The exact action',
    translate: 'no',
    dir: 'ltr',
  });
  box.append(el('pre', {}, ...wordsOf(display)));
  for (const place of placesOf(approval)) box.append(el('p', { class: 'where' }, place));
  if (preview?.files?.length) {
    for (const file of preview.files) box.append(...fileView(file).filter(Boolean));
  } else if (preview?.text) {
    box.append(el('p', { class: 'label' }, 'Preview'), el('pre', {}, visible(preview.text)));
  }
  return box;
}

// How much of the box is out of sight, said beside the buttons.
export function watchRest(box, note) {
  function count() {
    const line = parseFloat(getComputedStyle(box).lineHeight) || 20;
    const below = Math.floor((box.scrollHeight - box.scrollTop - box.clientHeight) / line);
    // The line stays when the end is reached: the buttons below it must not move.
    if (below > 0) note.textContent = `\u25bc ${below} more lines above: scroll the box`;
    else if (box.scrollHeight > box.clientHeight + line) note.textContent = 'The end is in view.';
    else note.textContent = '';
  }
  box.addEventListener('scroll', count, { passive: true });
  const observer = new ResizeObserver(count);
  observer.observe(box);
  return () => observer.disconnect();
}

// What "always" would cover, word for word.
export function alwaysView(approval) {
  return el(
    'div',
    { class: 'covers', dir: 'ltr', translate: 'no' },
    el('p', {}, 'From now on, without asking, in this session, exactly:'),
    el('pre', { tabindex: 0 }, ...wordsOf(approval.display)),
    ...placesOf(approval).map((place) => el('p', { class: 'where' }, place))
  );
}
