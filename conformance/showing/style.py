"""How the page looks, by day and by night."""

STYLE = """
:root {
  --paper: #f7f6f2; --card: #ffffff; --ink: #1c1b19; --soft: #6b6860; --line: #e2dfd6;
  --wrong: #d1344b; --wrong-soft: #fbe6e8; --right: #2f7d5b; --right-soft: #dcefe5;
  --read: #bcd3ea; --before: #ece7da; --hatch: #b9b19b; --unknown: #d9d6cd;
  --r0: #eef3f9; --r1: #f6efe2; --r2: #eaf4ec; --tick: #5a6a8055;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #141518; --card: #1c1e22; --ink: #e9e7e1; --soft: #98968f; --line: #2e3137;
    --wrong: #ec5f73; --wrong-soft: #3b1d23; --right: #6fcf9f; --right-soft: #17352a;
    --read: #2f4d6d; --before: #24262b; --hatch: #565a63; --unknown: #3a3d44;
    --r0: #222a35; --r1: #30291f; --r2: #1f2f26; --tick: #0b0d1088;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 64px; }
header { margin-bottom: 20px; }
p { margin: 4px 0; overflow-wrap: anywhere; }
.over { color: var(--soft); font: 13px var(--mono); }
h1 { margin: 4px 0 6px; font-size: 30px; line-height: 1.2; letter-spacing: -.01em; overflow-wrap: anywhere; }
.verdict { display: inline-block; vertical-align: 4px; padding: 3px 12px; border-radius: 99px; font-size: 15px;
  font-weight: 600; letter-spacing: 0; background: var(--before); }
.verdict.differs, .verdict.crashed { background: var(--wrong); color: var(--card); }
.verdict.conforms { background: var(--right); color: var(--card); }
.target { color: var(--soft); } .target b { color: var(--ink); }
.amount { font-size: 17px; }
section { margin: 16px 0; padding: 18px 22px 20px; background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; }
h2 { margin: 0 0 10px; font-size: 13px; font-weight: 600; letter-spacing: .06em; text-transform: uppercase;
  color: var(--soft); }
h3 { margin: 14px 0 6px; font-size: 13px; font-weight: 500; }
pre { margin: 8px 0; font: 13px/1.55 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; }
pre.place { padding: 10px 14px; border-left: 3px solid var(--wrong); background: var(--paper);
  border-radius: 0 8px 8px 0; }
pre.command { padding: 10px 14px; background: var(--paper); border-radius: 8px; user-select: all; }
.remark { padding: 8px 14px; border-left: 3px solid var(--hatch); background: var(--before); }
.found { padding: 8px 14px; border-left: 3px solid var(--right); background: var(--right-soft); }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font: 12.5px/1.5 var(--mono); }
th { padding: 4px 16px 6px 0; text-align: left; font-weight: 500; color: var(--soft); }
tbody { border-top: 1px solid var(--line); }
td { padding: 3px 20px 3px 0; vertical-align: top; white-space: nowrap; }
td.got { color: var(--wrong); white-space: normal; min-width: 24ch; }
.group th { padding: 8px 0 1px; color: var(--ink); white-space: nowrap; }
tr:not(.group) > td:first-child { padding-left: 2ch; }
dl { margin: 0; }
dl div { display: flex; gap: 16px; padding: 5px 0; border-top: 1px solid var(--line); }
dl div:first-child { border-top: 0; }
dt { flex: 0 0 148px; color: var(--soft); overflow-wrap: anywhere; }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
figure { margin: 0 0 22px; } figure:last-child { margin: 0; }
figcaption { margin-bottom: 8px; font-size: 14px; }
.map { font: 12px var(--mono); } figcaption { font-family: system-ui, "DejaVu Sans", sans-serif; }
.map .line { display: grid; gap: 10px; align-items: center; margin: 2px 0;
  grid-template-columns: var(--label) minmax(0, 1fr) 44px; }
.label, .count { font: 12px var(--mono); color: var(--soft); white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
.label { text-align: right; } .count { color: var(--wrong); }
.line[data-wrong]:not([data-wrong="0"]) .label { color: var(--ink); }
svg { display: block; width: 100%; height: 15px; background: var(--before); border-radius: 2px; }
svg.strip { height: 20px; border-radius: 4px; } svg.defs { position: absolute; width: 0; height: 0; }
.line.strip { margin-bottom: 10px; } .line.axis { align-items: end; }
path.wrong { fill: var(--wrong); stroke: var(--wrong); stroke-width: .7px; vector-effect: non-scaling-stroke; }
path.tick { stroke: var(--tick); stroke-width: 1px; vector-effect: non-scaling-stroke; fill: none; }
rect.group { fill: var(--line); } rect.unknown { fill: var(--unknown); }
rect.region.r0 { fill: var(--r0); } rect.region.r1 { fill: var(--r1); } rect.region.r2 { fill: var(--r2); }
.names { display: flex; }
.names span { min-width: 0; padding: 1px 0; text-indent: 6px; overflow: hidden; white-space: nowrap;
  font-size: 12px; border-radius: 3px 3px 0 0; }
.names .r0 { background: var(--r0); } .names .r1 { background: var(--r1); } .names .r2 { background: var(--r2); }
.ends { display: flex; justify-content: space-between; font: 11px var(--mono); color: var(--soft); }
.gap { margin: 4px 0 4px calc(var(--label, 0ch) + 10px); font-size: 12px; color: var(--soft); }
.lane + .gap { margin-left: 0; }
.legend { display: flex; flex-wrap: wrap; gap: 6px 18px; font-size: 12px; color: var(--soft); }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
.legend i { width: 18px; height: 12px; border: 1px solid var(--line); border-radius: 2px; }
.boxes { display: flex; flex-wrap: wrap; gap: 8px; align-items: stretch; }
.box { width: 112px; padding: 5px 8px 4px; border: 1px solid var(--line); border-radius: 8px; }
.box.hit { border-color: var(--wrong); }
.box b { font: 600 14px var(--mono); } .box small { display: block; color: var(--soft); font-size: 11px; }
.slots { position: relative; height: 22px; margin: 4px 0; overflow: hidden; border-radius: 3px;
  border: 1px solid var(--line); }
.slots i { position: absolute; top: 0; bottom: 0; }
.ticked::after { content: ""; position: absolute; inset: 0; background: repeating-linear-gradient(to right,
  transparent 0 calc(100% / var(--slots) - 1px), var(--card) calc(100% / var(--slots) - 1px)
  calc(100% / var(--slots))); opacity: .55; }
i.read { background: var(--read); } i.unknown { background: var(--unknown); }
i.wrong { background: var(--wrong); min-width: 2px; }
i.before { background: repeating-linear-gradient(135deg, var(--before) 0 3px, var(--hatch) 3px 4px); }
.elided { align-self: center; font-size: 12px; color: var(--soft); }
@media (max-width: 640px) {
  main { padding: 20px 12px 40px; } section { padding: 14px; } h1 { font-size: 23px; }
  .map { --label: 64px !important; } .map .line { grid-template-columns: 64px minmax(0, 1fr) 32px; gap: 6px; }
  dl div { display: block; } .label, .count { font-size: 11px; }
}
"""
