"use strict";
// The page of an inspector. It keeps only the rows that are near the visible ones; every request carries the token
// from the URL's fragment, which no browser sends by itself.

const token = location.hash.slice(1);
addEventListener("hashchange", () => location.reload());

const $ = id => document.getElementById(id);

/** A key in which characters that have no form or change the direction of a text are shown by their numbers, and a
 *  backslash by two, so that different keys look different. The names of stores and files come in such a form. */
const visible = name => name.replace(/[\\\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu,
  character => character === "\\" ? "\\\\" : `\\u{${character.codePointAt(0).toString(16)}}`);

/** An element with properties and children; text becomes text, never markup. */
function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name in element) element[name] = value; else element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

class Refusal extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

async function request(path, parameters, body) {
  const url = path + (parameters ? "?" + new URLSearchParams(parameters) : "");
  const response = await fetch(url, {
    method: body ? "POST" : "GET", headers: { Authorization: "Bearer " + token }, cache: "no-store",
    body: body && JSON.stringify(body),
  });
  if (response.ok) return response.json();
  if (response.status === 401) throw new Refusal(401, "the URL's token is not that of this server");
  let text = "refused with status " + response.status;
  try { text = (await response.json()).error; } catch { /* A refusal without a body. */ }
  throw new Refusal(response.status, text);
}

const size = bytes => {
  if (bytes === undefined || bytes === null) return "";
  if (bytes < 1024) return bytes + " B";
  let unit = "B";
  for (const larger of ["KiB", "MiB", "GiB"]) if (bytes >= 1024) { bytes /= 1024; unit = larger; }
  return (bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)) + " " + unit;
};
const number = value => value === undefined || value === null ? "" : value.toLocaleString("en");
const time = seconds => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const date = seconds => seconds === undefined ? "" : Math.abs(seconds) > 8.64e12 ? `${seconds} s` : new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");

// MARK: A list of any length

class VirtualList {
  static rowHeight = 26;
  static pageLength = 200;
  /** Browsers limit the height of an element; a longer list scrolls in proportion. */
  static tallest = 8_000_000;

  constructor(element) {
    this.element = element;
    this.spacer = make("div", { className: "spacer" });
    element.append(this.spacer);
    this.rows = [];
    this.frame = 0;
    this.timer = null;
    element.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  /** Shows another list: `load(offset, limit)` resolves to {total, rows}, `cells(row)` to the cells of a row. */
  show(load, cells, open) {
    Object.assign(this, { load, cells, open, total: 0, current: 0, pages: new Map(), wanted: new Set() });
    this.generation = (this.generation ?? 0) + 1;
    this.element.scrollTop = 0;
    return this.fetch(0);
  }

  /** Hides the rows until those of another list are loaded. */
  hide() { for (const row of this.rows) row.hidden = true; }

  /** Loads the visible rows again; what is shown stays until then. */
  async refresh() {
    if (!this.load) return;
    const visible = this.visiblePages();
    for (const page of [...this.pages.keys()]) if (!visible.includes(page)) this.pages.delete(page);
    await Promise.all(visible.map(page => this.fetch(page)));
  }

  async fetch(page) {
    if (this.wanted.has(page)) return;
    const generation = this.generation;
    this.wanted.add(page);
    try {
      const found = await this.load(page * VirtualList.pageLength, VirtualList.pageLength);
      if (generation !== this.generation) return;
      this.pages.set(page, found.rows);
      if (this.pages.size > 40) this.pages.delete(this.pages.keys().next().value);
      this.total = found.total;
      this.current = Math.min(this.current, Math.max(0, this.total - 1));
      this.onTotal?.(found.total);
    } catch (error) {
      if (generation === this.generation) this.onError?.(error);
    } finally {
      if (generation === this.generation) this.wanted.delete(page);
    }
    this.draw();
  }

  get height() { return this.total * VirtualList.rowHeight; }
  get shownHeight() { return Math.min(this.height, VirtualList.tallest); }
  get view() { return this.element.clientHeight; }

  /** The distance of the top from the first row, in pixels of a list that is not shortened. */
  get top() {
    const scrollable = this.shownHeight - this.view;
    if (this.height <= VirtualList.tallest || scrollable <= 0) return this.element.scrollTop;
    return this.element.scrollTop / scrollable * (this.height - this.view);
  }

  set top(value) {
    const scrollable = this.shownHeight - this.view;
    this.element.scrollTop =
      this.height <= VirtualList.tallest ? value : value / (this.height - this.view) * scrollable;
  }

  visibleRange() {
    const first = Math.max(0, Math.floor(this.top / VirtualList.rowHeight) - 4);
    return [first, Math.min(this.total, first + Math.ceil(this.view / VirtualList.rowHeight) + 8)];
  }

  visiblePages() {
    const [first, last] = this.visibleRange();
    const pages = [];
    for (let page = Math.floor(first / VirtualList.pageLength); page * VirtualList.pageLength <= last; page++) {
      if (page === 0 || page * VirtualList.pageLength < this.total) pages.push(page);
    }
    return pages;
  }

  row(index) {
    return this.pages.get(Math.floor(index / VirtualList.pageLength))?.[index % VirtualList.pageLength];
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.drawNow(); });
  }

  drawNow() {
    this.spacer.style.height = this.shownHeight + "px";
    const [first, last] = this.visibleRange();
    // Rows are laid out from the real scroll position, so that a shortened list still scrolls by pixels.
    const shift = this.element.scrollTop - this.top;
    while (this.rows.length < last - first) {
      const row = make("div", { className: "row", role: "option" });
      // What the row shows, which may have been loaded before a list that is on its way.
      row.addEventListener("click", () => { this.select(row.index); if (row.shown) row.open?.(row.shown); });
      this.rows.push(row);
      this.element.append(row);
    }
    this.rows.forEach((element, position) => {
      const index = first + position;
      element.hidden = index >= last;
      if (element.hidden) return;
      const row = this.row(index);
      element.style.transform = `translateY(${index * VirtualList.rowHeight + shift}px)`;
      const isCurrent = index === this.current;
      if (element.index !== index || element.shown !== row) {
        element.index = index;
        element.shown = row;
        element.open = this.open;
        element.id = "row" + index;
        element.replaceChildren(...(row ? this.cells(row) : [make("span", { className: "quiet" }, "…")]));
        element.className = "row" + (row?.count !== undefined || row?.isDirectory ? " group" : "");
      }
      element.classList.toggle("current", isCurrent);
      element.setAttribute("aria-selected", isCurrent);
    });
    if (this.total) this.element.setAttribute("aria-activedescendant", "row" + this.current);
    // Not every frame of a fast scroll asks for rows.
    this.timer ??= setTimeout(() => {
      this.timer = null;
      for (const page of this.visiblePages()) if (this.load && !this.pages.has(page)) this.fetch(page);
    }, 60);
  }

  select(index) {
    this.current = Math.max(0, Math.min(this.total - 1, index));
    const start = this.current * VirtualList.rowHeight;
    if (start < this.top) this.top = start;
    if (start + VirtualList.rowHeight > this.top + this.view) this.top = start + VirtualList.rowHeight - this.view;
    this.draw();
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.view / VirtualList.rowHeight) - 1);
    const steps = {
      ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.total, End: this.total,
    };
    if (event.key in steps) this.select(this.current + steps[event.key]);
    else if (event.key === "Enter") { const row = this.row(this.current); if (row) this.open?.(row); }
    else return;
    event.preventDefault();
  }
}

const list = new VirtualList($("list"));
list.onTotal = total => { $("count").textContent = number(total) + " rows"; };
list.onError = error => note(make("p", { className: "bad" }, error.message));
$("list").addEventListener("keydown", event => list.key(event));

// MARK: What is shown

let summary = { stores: [], caches: [] };
let shown = null;  // {kind, id, name}
let prefix = "";
/** The shown names of directories and files by their percent-encoded paths. */
const paths = new Map();
let isLog = false;
let opened = null;  // The key or file in the detail.
const staged = [];

const rate = (hits, misses) => hits + misses ? Math.round(100 * hits / (hits + misses)) + " %" : "–";

const span = (className, text) => make("span", { className, title: text ?? "" }, text ?? "");

function note(...children) {
  $("note").hidden = children.length === 0;
  $("note").replaceChildren(...children.filter(child => child));
}

function entries() {
  const kinds = { keyValue: "Key-value stores", vault: "Vaults", cache: "Caches", images: "Image caches" };
  const result = [];
  for (const [kind, title] of Object.entries(kinds)) {
    const stores = summary.stores.filter(store => store.kind === kind);
    if (stores.length) result.push({ heading: title }, ...stores);
  }
  result.push({ heading: "All stores" }, { kind: "files", name: "Files" }, { kind: "sessions", name: "Sessions" });
  // Only the process that serves this page can have registered caches.
  if (summary.caches.length) result.push({ kind: "hits", name: "Cache hit rates" });
  return result;
}

const isSame = (left, right) => left && right && left.kind === right.kind && left.id === right.id;

function drawStores() {
  $("stores").replaceChildren(...entries().map(entry => {
    if (entry.heading) return make("li", { className: "heading", role: "presentation" }, entry.heading);
    const mark = entry.failure ? "!" : entry.count !== undefined ? number(entry.count) : entry.kind === "vault" ? "sealed" : "";
    const item = make("li", { role: "option", title: entry.failure ?? entry.name }, make("span", {}, entry.name),
      make("span", { className: entry.failure ? "bad" : "quiet" }, mark));
    item.setAttribute("aria-selected", Boolean(isSame(entry, shown)));
    item.addEventListener("click", () => open(entry));
    return item;
  }));
}

async function loadSummary() {
  summary = await request("/api/stores");
  $("directory").textContent = summary.directory + (summary.isPartial ? " (too many files: shown in part)" : "");
  $("mode").textContent = summary.isWritable ? "writable" : "read-only";
  drawStores();
  const isReading = summary.stores.some(store => store.kind === "keyValue" && store.count === undefined && !store.failure);
  if (isReading) setTimeout(loadSummary, 500);
}

$("stores").addEventListener("keydown", event => {
  const choices = entries().filter(entry => !entry.heading);
  const index = choices.findIndex(entry => isSame(entry, shown));
  if (event.key === "ArrowDown") open(choices[Math.min(choices.length - 1, index + 1)]);
  else if (event.key === "ArrowUp") open(choices[Math.max(0, index - 1)]);
  else if (event.key === "Enter" || event.key === "ArrowRight") $("list").focus();
  else return;
  event.preventDefault();
});

function open(entry) {
  shown = { kind: entry.kind, id: entry.id, name: entry.name };
  prefix = "";
  isLog = false;
  $("search").value = "";
  list.hide();
  closeDetail();
  drawStores();
  return draw();
}

function draw() {
  $("title").textContent = shown.name === "." ? "this directory" : shown.name;
  const isKeyValue = shown.kind === "keyValue";
  $("searching").hidden = $("ordering").hidden = !isKeyValue || isLog;
  $("delimiting").hidden = !isKeyValue || isLog || $("order").value !== "tree";
  $("logtoggle").hidden = !isKeyValue;
  $("logtoggle").textContent = isLog ? "Keys" : "Log";
  $("count").textContent = "";
  $("crumbs").hidden = true;
  note();
  return views[isKeyValue && isLog ? "log" : shown.kind]();
}

function crumbs(separator) {
  const parts = prefix ? prefix.split(separator).filter((part, index, all) => part || index < all.length - 1) : [];
  const path = count => parts.slice(0, count).map(part => part + separator).join("");
  const go = count => () => { prefix = shown.kind === "files" ? parts.slice(0, count).join("/") : path(count); draw(); };
  $("crumbs").hidden = false;
  const name = index => shown.kind === "files" ? paths.get(parts.slice(0, index).join("/")).split("/").at(-1) : visible(parts[index - 1]);
  $("crumbs").replaceChildren(...["all", ...parts].map((part, index) =>
    make("button", { type: "button", onclick: go(index) }, index ? name(index) + visible(separator) : part)));
}

/** Rows that were loaded at once. */
const fixed = rows => async (offset, limit) => ({ total: rows.length, rows: rows.slice(offset, offset + limit) });

const views = {
  keyValue() {
    const order = $("order").value;
    const text = $("search").value;
    const isTree = order === "tree" && !text;
    if (isTree) crumbs($("delimiter").value || "/");
    const parameters = { store: shown.id, text, order: order === "size" ? "size" : "name" };
    if (isTree) Object.assign(parameters, { prefix, delimiter: $("delimiter").value || "/" });
    const start = isTree ? prefix : "";
    return list.show((offset, limit) => request("/api/keys", { ...parameters, offset, limit }), row => [
      span("key", visible(row.key.slice(start.length))), span("quiet", row.count === undefined ? row.type : number(row.count) + " keys"),
      span("number", size(row.size)), span("number quiet", row.revision === undefined ? "" : "r" + row.revision),
      span("quiet", row.expiry === undefined ? "" : date(row.expiry)), span("preview quiet", row.preview),
    ], row => {
      if (row.count === undefined) return showValue(row.key);
      prefix = row.key;
      return draw();
    });
  },

  async log() {
    const store = shown.id;
    drawMap(await request("/api/log", { store }));
    return list.show(async (offset, limit) => {
      const [map, rows] = await Promise.all([
        request("/api/log", { store }), request("/api/records", { store, offset, limit })]);
      return { total: map.recordCount, rows };
    }, row => [span("key", "byte " + number(row.offset)), span("quiet", row.operation), span("number", size(row.size))]);
  },

  async vault() {
    const vault = await request("/api/vault", { store: shown.id });
    const act = (path, text) => make("button", {
      type: "button", id: "unlock", onclick: async () => {
        try { await request(path, null, { store: shown.id }); await draw(); }
        catch (error) { note(make("p", { className: "bad" }, error.message)); }
      },
    }, text);
    const state = vault.isUnlocked ? "unlocked" : "sealed";
    note(make("p", {}, `${state}: ${number(vault.count)} secrets, ${size(vault.size)}, change ${vault.generation}  `,
      vault.isUnlocked ? act("/api/lock", "Seal") : act("/api/unlock", "Unlock")));
    return list.show(fixed((vault.names ?? []).map(name => ({ name }))), row => [span("key", visible(row.name)), span("quiet", "secret")]);
  },

  cache() { return views.images(); },
  images() {
    return list.show(async (offset, limit) => {
      const page = await request("/api/cache", { store: shown.id, offset, limit });
      const cache = summary.stores.find(store => isSame(store, shown))?.hits;
      const rates = cache ? `hits in memory ${rate(cache.memoryHits, cache.memoryMisses)}, on disk ${rate(cache.diskHits, cache.misses)}`
        : shown.kind === "cache" ? "hit rates: known only inside the process that uses the cache" : "";
      note(make("p", { className: "quiet" }, `${number(page.count)} entries, ${size(page.size)}`), rates && make("p", { className: "quiet" }, rates));
      return { total: page.count, rows: page.rows };
    }, row => [span("key", row.name), span("quiet", "entry"), span("number", size(row.size)), span("", ""),
      span("quiet", date(row.modified))]);
  },

  files() {
    crumbs("/");
    return list.show((offset, limit) => request("/api/files", { path: prefix, offset, limit }), row => [
      span("key", row.name), span("quiet", row.isDirectory ? "directory" : row.content),
      span("number", row.isDirectory ? "" : size(row.size)), span("", ""), span("quiet", date(row.modified)),
    ], row => {
      const path = prefix ? prefix + "/" + row.id : row.id;
      paths.set(path, prefix ? paths.get(prefix) + "/" + row.name : row.name);
      if (!row.isDirectory) return showFile(path, 0);
      prefix = path;
      return draw();
    });
  },

  async sessions() {
    const { rows, failures } = await request("/api/sessions");
    if (failures.length) note(...failures.map(text => make("p", { className: "bad" }, text)));
    return list.show(fixed(rows), row => [span("key", visible(row.name)), span("quiet", row.isSecret ? "secret" : row.type),
      span("", ""), span("", ""), span("quiet", row.expiry === undefined ? "" : date(row.expiry)), span("quiet", row.store)],
    row => { if (!row.isSecret) { open({ kind: "keyValue", id: row.storeID, name: row.store }); showValue(row.name); } });
  },

  hits() {
    const rows = summary.caches.map(cache => make("tr", {}, make("td", {}, cache.name), make("td", {}, rate(cache.memoryHits, cache.memoryMisses)),
      make("td", {}, rate(cache.diskHits, cache.misses)), make("td", {}, number(cache.evictions))));
    note(make("table", {}, make("tr", {}, ...["cache", "hits in memory", "hits on disk", "evictions"].map(title => make("th", {}, title))), ...rows));
    return list.show(fixed([]), () => []);
  },
};

function drawMap(map) {
  const canvas = make("canvas", { width: 960, height: 128, role: "img" });
  canvas.setAttribute("aria-label", `${map.sections.length} sections of the log`);
  const style = getComputedStyle(document.documentElement);
  const color = name => style.getPropertyValue("--" + name);
  const context = canvas.getContext("2d");
  map.sections.forEach(([used, current, isDamaged], index) => {
    const [x, y] = [index % 60 * 16, Math.floor(index / 60) * 16];
    context.fillStyle = isDamaged ? color("bad") : color("free");
    context.fillRect(x, y, 15, 15);
    if (isDamaged) return;
    // From the bottom: current values, outdated records, and above them what is free.
    const height = bytes => Math.min(15, Math.round(15 * bytes / map.sectionSize));
    context.fillStyle = color("old");
    context.fillRect(x, y + 15 - height(used), 15, height(used));
    context.fillStyle = color("good");
    context.fillRect(x, y + 15 - height(current), 15, height(current));
  });
  const share = map.end > 64 ? Math.round(100 * map.currentBytes / (map.end - 64)) : 100;
  const lines = [`${number(map.recordCount)} records in ${size(map.end)}, ${share} % current; ${size(map.size - map.end)} reserved`];
  if (map.isHeaderDamaged) lines.push("the header is damaged");
  for (const range of map.damage) {
    lines.push(range.start === range.end ? `records are missing at byte ${range.start}` : `damaged: bytes ${range.start} to ${range.end}`);
  }
  if (map.tail) lines.push(`unfinished record: bytes ${map.tail.start} to ${map.tail.end}`);
  for (const file of map.quarantine) lines.push(`quarantine: ${file.name}, ${size(file.size)}`);
  note(canvas, ...lines.map((line, index) => make("div", { className: index ? "bad" : "quiet" }, line)));
}

// MARK: Details

function closeDetail() {
  opened = null;
  $("detail").hidden = true;
  $("detail").replaceChildren();
}

function showDetail(title, pairs, ...children) {
  const terms = pairs.filter(([, value]) => value).flatMap(([term, value]) => [make("dt", {}, term), make("dd", {}, value)]);
  $("detail").replaceChildren(make("h3", {}, title), make("dl", {}, ...terms), ...children);
  $("detail").hidden = false;
}

async function showValue(key) {
  const { id: store, name: storeName } = shown;
  const mine = opened = { store, storeName, key };
  try {
    const found = await request("/api/value", { store, key });
    // Something else was opened meanwhile, or the value is being edited.
    if (opened !== mine || mine.isEditing) return;
    const { value } = found;
    const expiry = value.isExpiring ? (value.expiry === undefined ? "never" : date(value.expiry) + " UTC") : "";
    const parts = value.decoded.map(decoded => make("div", {}, make("h3", {}, decoded.name), make("pre", {}, decoded.text)));
    parts.push(make("pre", { id: "value" }, value.text));
    if (value.isPreview) parts.push(make("p", { className: "quiet" }, "The beginning; the value is larger."));
    if (summary.isWritable && value.isJSON) {
      parts.push(make("p", {}, make("button", { type: "button", id: "edit", onclick: () => edit(found) }, "Edit"), " ",
        make("button", { type: "button", id: "remove", onclick: () => stage(found, null) }, "Remove")));
    }
    showDetail(visible(key), [["type", value.type], ["size", size(found.size)], ["revision", String(found.revision)],
      ["expires", expiry], ["version", String(value.version ?? "")]], ...parts);
  } catch (error) {
    if (opened !== mine || mine.isEditing) return;
    showDetail(visible(key), [], make("p", { className: "bad" }, error.message));
  }
}

async function showFile(path, offset) {
  const mine = opened = { file: path, offset };
  try {
    const file = await request("/api/file", { path, offset });
    if (opened !== mine) return;
    const end = Math.min(file.size, offset + 65536);
    const parts = [];
    if (file.image && file.base64) {
      parts.push(make("img", { alt: paths.get(path), src: `data:${file.image};base64,${file.base64}` }));
    } else if (file.text !== undefined) {
      parts.push(make("pre", { id: "value" }, file.text));
    } else if (file.base64 !== undefined) {
      const bytes = [...atob(file.base64).slice(0, 4096)].map(byte => byte.charCodeAt(0).toString(16).padStart(2, "0"));
      parts.push(make("pre", { id: "value" }, bytes.join(" ")));
    } else {
      parts.push(make("p", { className: "quiet" }, "The content of such a file is not shown."));
    }
    if (end < file.size && file.text !== undefined) {
      parts.push(make("button", { type: "button", onclick: () => showFile(path, end) }, "Next 64 KiB"));
    }
    showDetail(paths.get(path), [["kind", file.content], ["size", size(file.size)], ["bytes", `${number(offset)} to ${number(end)}`]], ...parts);
  } catch (error) {
    if (opened !== mine) return;
    showDetail(paths.get(path), [], make("p", { className: "bad" }, error.message));
  }
}

// MARK: Edits

function edit(found) {
  opened.isEditing = true;
  const text = make("textarea", { id: "editor", spellcheck: false, value: found.value.text });
  showDetail(visible(found.key), [["revision", String(found.revision)]], text, make("p", {},
    make("button", { type: "button", id: "stage", className: "first", onclick: () => stage(found, text.value) }, "Stage"), " ",
    make("button", { type: "button", onclick: () => showValue(found.key) }, "Cancel")));
  text.focus();
}

function stage(found, json) {
  const change = { store: opened.store, storeName: opened.storeName, key: found.key, revision: found.revision, state: found.state,
    old: found.value.text, json };
  const index = staged.findIndex(other => other.store === change.store && other.key === change.key);
  if (index >= 0) staged.splice(index, 1);
  staged.push(change);
  drawStaged();
  showValue(found.key);
}

/** The lines of two texts: kept, removed and added (longest common subsequence). */
function difference(old, new_) {
  const [left, right] = [old.split("\n"), new_ === null ? [] : new_.split("\n")];
  if (left.length * right.length > 250_000) return [...left.map(line => ["del", line]), ...right.map(line => ["ins", line])];
  const lengths = Array.from({ length: left.length + 1 }, () => new Uint32Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      lengths[i][j] = left[i] === right[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) { lines.push(["span", left[i++]]); j++; }
    else if (i < left.length && (j === right.length || lengths[i + 1][j] >= lengths[i][j + 1])) lines.push(["del", left[i++]]);
    else lines.push(["ins", right[j++]]);
  }
  return lines;
}

function drawStaged(message) {
  $("staged").hidden = staged.length === 0 && !message;
  const stores = [...new Set(staged.map(change => change.store))];
  $("staged").replaceChildren(make("h3", {}, "Staged edits"), message ?? "", ...stores.flatMap(store => [
    ...staged.filter(change => change.store === store).map(change => make("div", {},
      make("code", {}, `${visible(change.key)} (r${change.revision})`), " ",
      make("button", { type: "button", onclick: () => { staged.splice(staged.indexOf(change), 1); drawStaged(); } }, "Discard"),
      make("pre", { className: "diff" }, ...difference(change.old, change.json).map(([tag, line]) => make(tag, {}, line))))),
    make("button", { type: "button", id: "apply", className: "first", onclick: () => apply(store) }, "Apply to " + staged.find(change => change.store === store).storeName),
  ]));
}

async function apply(store) {
  drawStaged();
  const changes = staged.filter(change => change.store === store);
  try {
    await request("/api/edits", null, { store, edits: changes.map(({ key, state, json }) => ({ key, state, json })) });
    for (const change of changes) staged.splice(staged.indexOf(change), 1);
    drawStaged(make("p", { id: "result" }, "Stored."));
    if (opened?.store === store && !opened.isEditing) showValue(opened.key);
    refresh();
  } catch (error) {
    drawStaged(make("p", { id: "result", className: "bad" }, error.message));
  }
}

// MARK: Live

/** Loads what is shown again, at the place of the list at which it is. */
async function redraw() {
  if (shown.kind === "keyValue" && isLog) {
    const store = shown.id;
    const [map] = await Promise.all([request("/api/log", { store }), list.refresh()]);
    if (isLog && shown.id === store) drawMap(map);
  } else if (["vault", "sessions", "hits"].includes(shown.kind)) {
    const { current, top } = list;
    await draw();
    Object.assign(list, { current, top });
  } else {
    await list.refresh();
  }
}

let isStale = false;
let isRefreshing = false;

async function refresh() {
  isStale = true;
  if (isRefreshing) return;
  isRefreshing = true;
  try {
    while (isStale) {
      isStale = false;
      await Promise.all([loadSummary(), redraw()]);
    }
  } catch (error) {
    list.onError(error);
  } finally {
    isRefreshing = false;
  }
}

function drawEvents(events) {
  const items = events.slice(-200).reverse().map(event => make("li", {},
    make("span", { className: "quiet" }, time(event.time)), make("span", {}, event.operation),
    make("code", {}, event.storeID === undefined ? event.name ?? "" : visible(event.name ?? "")),
    make("span", { className: "quiet" }, event.store),
    make("span", { className: "quiet" }, event.isOwn ? "here" : ""),
    make("span", { className: "quiet" }, event.revision === undefined ? "" : "r" + event.revision),
    make("span", { className: "quiet" }, event.omittedCount ? `and ${number(event.omittedCount)} more` : "")));
  $("events").prepend(...items);
  while ($("events").children.length > 500) $("events").lastChild.remove();
}

/** Loads the opened value or file again if it may have changed, unless it is being edited. */
function reloadOpened(events, isComplete) {
  if (!opened || opened.isEditing) return;
  const { store, key, file, offset } = opened;
  const name = file === undefined ? key : paths.get(file);
  // An event without a name concerns the whole store; the changes that are only counted have no event of their own.
  const mayConcern = event => event.storeID === store && (event.name === undefined || event.name === name || event.omittedCount > 0);
  if (isComplete && !events.some(mayConcern)) return;
  if (file === undefined) showValue(key); else showFile(file, offset);
}

async function follow() {
  let after = 0;
  let wait = 0;  // The first answer comes at once.
  for (;;) {
    try {
      const page = await request("/api/changes", { after, wait });
      wait = 20;
      $("live").textContent = "live";
      $("live").className = "badge on";
      if (page.last < after) { after = 0; continue; }  // Another server has taken the port.
      // The server keeps the last events only.
      const isComplete = page.events[0]?.number === after + 1;
      after = page.last;
      if (page.events.length === 0) continue;
      drawEvents(page.events);
      refresh();
      reloadOpened(page.events, isComplete);
    } catch (error) {
      $("live").textContent = error.status === 401 ? "refused" : "not connected";
      $("live").className = "badge off";
      if (error.status) note(make("p", { className: "bad" }, error.message));
      await new Promise(resolve => setTimeout(resolve, 1000));
    }
  }
}

// MARK: Controls

let typing = 0;
$("search").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(draw, 150); });
$("order").addEventListener("change", () => { prefix = ""; draw(); });
$("delimiter").addEventListener("change", () => { prefix = ""; draw(); });
$("logtoggle").addEventListener("click", () => { isLog = !isLog; draw(); });

function back() {
  if (!$("detail").hidden) return closeDetail();
  if ($("search").value) { $("search").value = ""; return draw(); }
  if (isLog) { isLog = false; return draw(); }
  if (!prefix) return undefined;
  if (shown.kind === "files") prefix = prefix.slice(0, Math.max(0, prefix.lastIndexOf("/")));
  // What comes before the delimiter at the end may be empty.
  else prefix = prefix.slice(0, prefix.slice(0, -1).lastIndexOf($("delimiter").value || "/") + 1);
  return draw();
}

addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isText = event.target.matches("input, textarea, select");
  if (event.key === "Escape") { if (isText) $("list").focus(); back(); }
  else if (isText && event.key === "Enter" && event.target === $("search")) $("list").focus();
  else if (isText) return;
  else if (event.key === "/") $("search").focus();
  else if (event.key === "g") $("stores").focus();
  else return;
  event.preventDefault();
});

(async () => {
  try {
    await loadSummary();
    await open(entries().find(entry => !entry.heading));
    $("list").focus();
  } catch (error) {
    note(make("p", { className: "bad" }, error.message));
  }
  follow();
})();
