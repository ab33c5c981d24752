// Charts and tables as trees: [tag, attributes, children]; a child that is no tree is text. Nothing here needs a
// browser but `render`.
"use strict";

const CLASSES = ["lt-ld", "ht-ld", "lt-hd", "ht-hd"];
const CLASS_NAMES = {
  "lt-ld": "interactive (lt-ld)", "ht-ld": "calls and streams (ht-ld)",
  "lt-hd": "background (lt-hd)", "ht-hd": "bulk (ht-hd)",
};
const SVG = "http://www.w3.org/2000/svg";

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let rest = Math.abs(Number(value));
  let unit = 0;
  while (rest >= 1023.5 && unit + 1 < units.length) {
    rest /= 1024;
    ++unit;
  }
  const digits = unit === 0 || rest >= 100 ? 0 : rest >= 10 ? 1 : 2;
  return (Number(value) < 0 ? "−" : "") + rest.toFixed(digits) + " " + units[unit];
}

// Micro-denarii, which may be text above 2^53.
function money(value) {
  if (value === null || value === undefined) {
    return "–";
  }
  const amount = BigInt(value);
  const size = amount < 0n ? -amount : amount;
  const rest = String(size % 1000000n).padStart(6, "0").replace(/0{1,4}$/, "");
  return (amount < 0n ? "−" : "") + String(size / 1000000n) + "." + rest;
}

function percent(part, whole) {
  return Number(whole) > 0 ? (100 * Number(part) / Number(whole)).toFixed(1) + " %" : "–";
}

// The effect of a quota or credit on a user now; empty where there is none.
function allowanceText(allowance, timeText) {
  const words = {warned: "near the end of the " + (allowance ?? {}).of, noted: "used up", throttled: "throttled", stopped: "stopped"};
  if (!allowance || !words[allowance.state]) {
    return "";
  }
  const acts = allowance.state === "throttled" || allowance.state === "stopped";
  return words[allowance.state] + (acts ? ", the " + allowance.of + " is used up" : "") +
    (allowance.until === null ? "" : " until " + timeText(Number(allowance.until)));
}

// Sum of numbers that may be text; null where none is known.
function sum(rows, name) {
  let total = null;
  for (const row of rows) {
    if (row[name] !== null && row[name] !== undefined) {
      total = (total ?? 0n) + BigInt(row[name]);
    }
  }
  return total;
}

function payload(row) {
  return Number(row.payload_up) + Number(row.payload_down);
}

// The next higher value with one digit, in the unit that is shown.
function roundUp(value) {
  let unit = 1;
  while (value / unit >= 1024) {
    unit *= 1024;
  }
  const size = Math.max(value / unit, 1);
  const step = 10 ** Math.floor(Math.log10(size));
  return Math.ceil(size / step) * step * unit;
}

// "2026-11-01" to "2026-11-30", both included.
function daysBetween(first, last) {
  const days = [];
  for (let day = new Date(first + "T12:00:00Z"); days.length < 400; day.setUTCDate(day.getUTCDate() + 1)) {
    const text = day.toISOString().slice(0, 10);
    if (text > last) {
      break;
    }
    days.push(text);
  }
  return days;
}

// Bars of days, a piece for each class, in a picture so many pixels wide. `rows`: of usage by day and class.
function dayChart(rows, days, width = 960) {
  const height = 260, left = 76, bottom = 26, top = 10;
  const byDay = new Map(days.map((day) => [day, {}]));
  for (const row of rows) {
    if (byDay.has(row.day)) {
      byDay.get(row.day)[row.class] = payload(row);
    }
  }
  const totals = days.map((day) => CLASSES.reduce((all, name) => all + (byDay.get(day)[name] || 0), 0));
  const most = roundUp(Math.max(...totals, 1));
  const tall = height - top - bottom;
  const step = (width - left) / Math.max(days.length, 1);
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    const y = top + tall * (1 - share);
    parts.push(["line", {class: "axis", x1: left, x2: width, y1: y, y2: y}, []]);
    parts.push(["text", {x: left - 8, y: y + 4, "text-anchor": "end"}, [bytes(most * share)]]);
  }
  const labelled = Math.max(1, Math.ceil(days.length * 56 / (width - left)));
  days.forEach((day, index) => {
    let y = top + tall;
    const x = left + index * step;
    for (const name of CLASSES) {
      const size = (byDay.get(day)[name] || 0) / most * tall;
      if (size > 0) {
        y -= size;
        parts.push(["rect", {class: name, x: x + step * 0.1, y, width: step * 0.8, height: size},
          [["title", {}, [day + ", " + CLASS_NAMES[name] + ": " + bytes(byDay.get(day)[name])]]]]);
      }
    }
    if (index % labelled === 0) {
      parts.push(["text", {x: x + step / 2, y: height - 8, "text-anchor": "middle"}, [day.slice(5)]]);
    }
  });
  const peak = totals.indexOf(Math.max(...totals, 0));
  return figure(width, height, parts, "Payload by day and class, " + (days[0] || "") + " to " +
    (days[days.length - 1] || "") + (totals[peak] > 0 ? "; most on " + days[peak] + ": " + bytes(totals[peak]) : ""));
}

// Horizontal bars, one per row; without room beside them, their names stand above. `rows`: [{name, value, kind, note}].
function barChart(rows, label, width = 960) {
  const isNarrow = width < 640;
  const tall = isNarrow ? 46 : 30, left = isNarrow ? 0 : 220, room = isNarrow ? 0 : 190;
  const most = Math.max(...rows.map((row) => row.value), 1);
  const parts = [];
  rows.forEach((row, index) => {
    const top = index * tall;
    const size = Math.max(row.value, 0) / most * (width - left - room);
    parts.push(["rect", {class: row.kind, x: left, y: top + tall - 25, width: size, height: 20},
      [["title", {}, [row.name + ": " + row.note]]]]);
    if (isNarrow) {
      parts.push(["text", {x: 0, y: top + 15}, [row.name + ": " + row.note]]);
    } else {
      parts.push(["text", {x: left - 10, y: top + 19, "text-anchor": "end"}, [row.name]]);
      parts.push(["text", {x: left + size + 8, y: top + 19}, [row.note]]);
    }
  });
  return figure(width, Math.max(rows.length, 1) * tall, parts, label);
}

function figure(width, height, parts, label) {
  return ["svg", {viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": label}, parts];
}

function legend() {
  return ["ul", {class: "legend"}, CLASSES.map((name) =>
    ["li", {}, [["i", {class: name, "aria-hidden": "true"}, []], CLASS_NAMES[name]]])];
}

// `columns`: [{head, text}]; `rows`: arrays of texts. The first cell of a row is its header.
function table(caption, columns, rows) {
  const kind = (index) => columns[index].text ? {class: "text"} : {};
  return ["div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption}, [["table", {}, [
    ["caption", {}, [caption]],
    ["thead", {}, [["tr", {}, columns.map((column, index) =>
      ["th", {scope: "col", ...kind(index)}, [column.head]])]]],
    ["tbody", {}, rows.map((row) => ["tr", {}, row.map((cell, index) =>
      index === 0 ? ["th", {scope: "row", ...kind(0)}, [cell]] : ["td", kind(index), [cell]])])]]]]];
}

function asTable(tree) {
  return ["details", {}, [["summary", {}, ["As a table"]], tree]];
}

// RFC 4180. Fields that a spreadsheet would take for a formula are escaped.
function csv(head, rows) {
  const field = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    if (/^[=+@\t\r]/.test(text) || (/^-/.test(text) && !/^-[0-9.]+$/.test(text))) {
      text = "'" + text;
    }
    return /[",\r\n]/.test(text) ? "\"" + text.replace(/"/g, "\"\"") + "\"" : text;
  };
  return [head, ...rows].map((row) => row.map(field).join(",") + "\r\n").join("");
}

function render(tree, isSvg = false) {
  if (!Array.isArray(tree)) {
    return document.createTextNode(String(tree));
  }
  const [tag, attributes, children] = tree;
  const inSvg = isSvg || tag === "svg";
  const node = inSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  }
  node.append(...children.map((child) => render(child, inSvg)));
  return node;
}

if (typeof module !== "undefined") {
  module.exports = {allowanceText, bytes, money, percent, sum, roundUp, daysBetween, dayChart, barChart, table, csv, CLASSES};
}
