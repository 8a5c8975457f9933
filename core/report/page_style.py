"""How the page of a report looks: one style sheet for light and dark, from a phone to a wide screen, without fonts of others.

The two accents, blue-green for what holds and orange-red for what breaks, are those of the screens: the common kinds of colour
blindness keep them apart, and shapes and words say the same.
"""

STYLE = """
:root { color-scheme: light dark; --paper: #fbfbfa; --ink: #1b1d21; --soft: #5c6270; --rule: #d9dbe0; --raised: #f0f1f3;
  --pass: #0b6b5c; --fail: #b03a12; --pass-zone: #0b6b5c14; --fail-zone: #b03a1214; --first: #1b1d21; --second: #8a2a7c;
  --third: #5847b8; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #111318; --ink: #dfe2e8; --soft: #98a0af; --rule: #2b303a; --raised: #191c23;
    --pass: #4fb8a5; --fail: #f0764f; --pass-zone: #4fb8a51a; --fail-zone: #f0764f1a; --first: #ecefa4; --second: #d99be8;
    --third: #9d86f5; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 66rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--rule); }
h3 { font-size: .9rem; margin: 0 0 .25rem; }
p { margin: .4rem 0; }
.of, .small, footer { color: var(--soft); font-size: .875rem; }
.warning { padding: .4rem .7rem; border-left: 4px solid var(--fail); background: var(--raised); }
ul { margin: .3rem 0; padding-left: 1.2rem; }
li { margin: .25rem 0; }
li b { font-weight: 600; color: var(--soft); margin-right: .35rem; }
pre { padding: .6rem .8rem; background: var(--raised); white-space: pre-wrap; font-size: .85rem; }
.plots { display: grid; gap: 1.25rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
figure { margin: 0; min-width: 0; }
figcaption { font-size: .8rem; color: var(--soft); display: flex; flex-wrap: wrap; gap: .15rem .9rem; }
figcaption span { display: inline-flex; align-items: center; gap: .3rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--rule);
  white-space: nowrap; overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; }
td.words { white-space: normal; min-width: 16rem; }
.verdict { font-weight: 600; }
.verdict.pass { color: var(--pass); }
.verdict.fail, .verdict.refuse, .verdict.void { color: var(--fail); }
svg { display: block; width: 100%; height: auto; }
svg.key { display: inline-block; width: 1rem; height: .875rem; flex: none; }
svg text { fill: var(--soft); font-size: 12px; font-family: system-ui, sans-serif; }
svg .said { fill: var(--ink); paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
svg .middle { text-anchor: middle; }
svg .end { text-anchor: end; }
svg text.pass { fill: var(--pass); }
svg text.fail { fill: var(--fail); }
.grid { stroke: var(--rule); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; }
.rule { stroke: var(--ink); stroke-width: 1.25; stroke-dasharray: 5 4; }
.upright { stroke-width: 1.25; }
.upright.pass { stroke: var(--pass); }
.upright.fail { stroke: var(--fail); }
.zone.pass { fill: var(--pass-zone); }
.zone.fail { fill: var(--fail-zone); }
.mark { stroke: var(--paper); stroke-width: 1; }
.ring { fill: var(--paper); stroke-width: 1.75; }
.stroke { fill: none; stroke-width: 2.25; }
.line { fill: none; stroke-width: 1.75; stroke-linejoin: round; }
.bar { fill-opacity: .35; }
.mark.pass, .bar.pass { fill: var(--pass); }
.mark.fail, .bar.fail { fill: var(--fail); }
.bar.ramp, .bar.some { fill: var(--soft); }
.bar.unknown { fill: var(--paper); fill-opacity: 1; stroke-width: 1.25; stroke-dasharray: 3 2; stroke: var(--fail); }
.bar.some.unknown, .bar.ramp.unknown { stroke: var(--soft); }
.stroke.fail { stroke: var(--fail); }
.ring.ramp { stroke: var(--soft); }
.ring.void { stroke: var(--fail); stroke-dasharray: 2 2; }
.mark.p50, .alone.p50 { fill: var(--first); }
.mark.p95, .alone.p95 { fill: var(--second); }
.line.p50, .ring.p50, .line.running { stroke: var(--first); }
.line.p95, .ring.p95, .line.waiting { stroke: var(--second); }
.line.asked { stroke: var(--first); }
.line.served { stroke: var(--third); }
.alone { fill: var(--soft); }
@media print { body { max-width: none; } .wide { overflow: visible; } }
"""
