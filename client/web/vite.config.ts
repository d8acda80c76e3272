import { defineConfig, type Plugin } from 'vite';

// The page is drawn by its script, so the first paint waits for it: a theme that was chosen does not
// flash in the other one first.
const paintAfterScript: Plugin = {
  name: 'paint-after-script',
  transformIndexHtml: {
    order: 'post',
    handler: (html) => html.replace('<script type="module"', '<script type="module" blocking="render"'),
  },
};

// The result depends on the sources and the locked packages alone: it is committed, and compared with a
// new build by scripts/web.
export default defineConfig({
  base: './',
  plugins: [paintAfterScript],
  build: {
    target: 'es2022',
    outDir: 'dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
