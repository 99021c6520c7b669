// Durations in words. Deadlines live on performance.now(), set from the service's remaining_ms: the
// clock of this machine may be wrong and decides nothing.

export function words(ms) {
  const all = Math.max(0, Math.floor(ms / 1000));
  const hours = Math.floor(all / 3600);
  const minutes = Math.floor((all % 3600) / 60);
  const seconds = all % 60;
  if (hours) return `${hours} h ${minutes} min`;
  if (minutes) return `${minutes} min ${seconds} s`;
  return `${seconds} s`;
}

export function clock(when) {
  const date = new Date(when);
  if (Number.isNaN(date.getTime())) return '';
  return [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map((n) => String(n).padStart(2, '0'))
    .join(':');
}
