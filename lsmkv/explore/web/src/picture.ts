// Saves what the window shows as a picture, for slides.

import { h } from "./dom";

/** The window's content as a drawing: a copy of the page with its style, and its canvases as images. */
function drawing(): string {
  const body = document.body.cloneNode(true) as HTMLElement;
  const drawn = [...document.body.querySelectorAll("canvas")];
  for (const [at, copy] of [...body.querySelectorAll("canvas")].entries()) {
    const [canvas] = drawn.slice(at, at + 1);
    if (!canvas?.checkVisibility()) continue;
    const image = h("img", { src: canvas.toDataURL(), class: canvas.className });
    const { width, height } = canvas.getBoundingClientRect();
    image.style.setProperty("width", `${width}px`);
    image.style.setProperty("height", `${height}px`);
    copy.replaceWith(image);
  }
  for (const unseen of body.querySelectorAll("script")) unseen.remove();
  body.style.setProperty("margin-top", `${-scrollY}px`);
  const style = h("style", {}, document.querySelector("style")?.textContent ?? "");
  const inside = [style, body].map((one) => new XMLSerializer().serializeToString(one)).join("");
  const { theme } = document.documentElement.dataset;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${innerWidth}" height="${innerHeight}"` +
    `${theme ? ` data-theme="${theme}"` : ""}>` +
    `<foreignObject width="100%" height="100%">${inside}</foreignObject></svg>`
  );
}

/** Gives the user a PNG of the window as a file. */
export async function savePicture(name: string): Promise<void> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing())}`;
  await image.decode();
  const ratio = Math.max(2, devicePixelRatio);
  const canvas = h("canvas", { width: innerWidth * ratio, height: innerHeight * ratio });
  const context = canvas.getContext("2d");
  if (!context) return;
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  h("a", { href: canvas.toDataURL("image/png"), download: `${name}.png` }).click();
}
