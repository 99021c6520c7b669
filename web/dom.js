// Elements and text. Everything shown passes through here as a text node; there is no markup path.

export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) node.setAttribute(name, '');
    else if (value !== false && value != null) node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child != null && child !== false));
  return node;
}

export function button(text, attributes, onClick) {
  const node = el('button', { type: 'button', ...attributes }, text);
  node.addEventListener('click', onClick);
  return node;
}

// A control that is off for now stays focusable and says why; it is never `disabled`.
export function setOff(node, off) {
  if (off) node.setAttribute('aria-disabled', 'true');
  else node.removeAttribute('aria-disabled');
}

export function isOff(node) {
  return node.getAttribute('aria-disabled') === 'true';
}

// The service neutralises what it knows to be hostile. Names and titles come as they are, so what
// cannot be seen, or changes the order of what is seen, is written out here in the same form.
const INVISIBLE = new RegExp(
  '(?<![\\p{L}\\p{M}\\p{Extended_Pictographic}])[\\u200c\\u200d]' +
    '|(?![\\u200c\\u200d\\n\\t])[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Co}\\p{Cn}\\p{Cs}]' +
    '|[\\u115f\\u1160\\u3164\\uffa0\\u2800]',
  'gu'
);

export function visible(text) {
  return String(text ?? '').replace(INVISIBLE, (c) => {
    const code = c.codePointAt(0);
    const hex = code.toString(16);
    return code < 0x80 ? '\\x' + hex.padStart(2, '0') : '\\u{' + hex + '}';
  });
}

// One line: a name that brings its own lines must not look like several facts.
export function visibleLine(text) {
  return visible(text).replace(/\n/g, '\\n').replace(/\t/g, '\\t');
}
