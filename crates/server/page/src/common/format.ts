/** Numbers for people. */

/** Three digits are enough: 0.123, 1.23, 12.3, 123, 1,234. */
export function number(value: number): string {
  const digits = Math.abs(value) >= 99.95 || Number.isInteger(value) ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  return value.toLocaleString("en", { minimumFractionDigits: 0, maximumFractionDigits: digits });
}

export function seconds(value: number): string {
  return value < 1 ? `${number(value * 1000)} ms` : `${number(value)} s`;
}

export function share(value: number): string {
  return `${Math.round(value * 100)} %`;
}

/** When a conversation was last written in: the time of today, or the day. */
export function when(time: number, now = Date.now()): string {
  const date = new Date(time);
  const sameDay = date.toDateString() === new Date(now).toDateString();
  return sameDay
    ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : date.toLocaleDateString([], { day: "numeric", month: "short" });
}
