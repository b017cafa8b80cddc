// Every piece of visible text whose contrast with its ground is below what WCAG 2.2 asks for (AA): [text, ratio].
() => {
  const channel = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => { const n = text.match(/[\d.]+/g).map(Number); return n.length === 3 ? [...n, 1] : n; };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0, 1] : [255, 255, 255, 1];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || !element.getClientRects().length || element.closest("script, style, :disabled")) continue;
    const style = getComputedStyle(element), svg = element.closest("svg");
    const colour = parse(svg ? style.fill : style.color);
    const [one, two] = [light(colour), light(ground(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (two + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) low.push([text.slice(0, 40), ratio.toFixed(2)]);
  }
  return low;
}
