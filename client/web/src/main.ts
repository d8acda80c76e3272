import { Api } from './api/client.ts';
import { App } from './app.ts';
import { converses } from './api/chat.ts';
import { chatPage } from './pages/chat/page.ts';
import { coupletsPage } from './pages/couplets/page.ts';
import { drawPage } from './pages/draw/page.ts';
import { serverPage } from './pages/server/page.ts';
import { treePage } from './pages/tree/page.ts';
import { writePage } from './pages/write/page.ts';
import { Shell, type Entry } from './shell.ts';
import { applyTheme } from './theme.ts';
import { visit } from './ui/store.ts';

applyTheme();
const app = new App(new Api({ key: () => visit.get('key') ?? '' }));
const pages: Entry[] = [
  { name: 'chat', title: 'Chat', make: () => chatPage(app), wants: converses },
  { name: 'write', title: 'Write', make: () => writePage(app) },
  { name: 'tree', title: 'Tree', make: () => treePage(app) },
  { name: 'couplets', title: 'Couplets', make: () => coupletsPage(app) },
  { name: 'draw', title: 'Draw', make: () => drawPage(app) },
  { name: 'server', title: 'Server', make: () => serverPage(app) },
];
void new Shell(pages, app).start();
