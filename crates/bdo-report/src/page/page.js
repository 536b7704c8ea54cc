'use strict';
(() => {
  const on = (type, act) => document.addEventListener(type, act);
  const near = (event, what) => event.target instanceof Element ? event.target.closest(what) : null;
  const save = (href, name) => { const a = document.createElement('a'); a.href = href; a.download = name; a.click(); };

  // Tables: by number where cells have one, else by words; what is empty stays last.
  const sort = (th) => {
    const table = th.closest('table'), column = [...th.parentNode.children].indexOf(th);
    const down = th.getAttribute('aria-sort') === 'ascending', turn = down ? -1 : 1;
    const value = (row) => { const td = row.children[column]; return 'v' in td.dataset ? (td.dataset.v === '' ? null : +td.dataset.v) : td.textContent; };
    const compare = (a, b) => {
      const x = value(a), y = value(b);
      if (x === null || y === null) return (x === null) - (y === null);
      return turn * (typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', { numeric: true }));
    };
    [...table.tBodies[0].rows].sort(compare).forEach((row) => table.tBodies[0].append(row));
    table.querySelectorAll('th').forEach((other) => other.removeAttribute('aria-sort'));
    th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  };

  // Legends: a click or a key hides and shows a series.
  const toggle = (key) => {
    const show = key.getAttribute('aria-pressed') === 'false';
    key.setAttribute('aria-pressed', String(show));
    key.closest('svg').querySelectorAll(`[data-s="${key.dataset.k}"]`).forEach((g) => g.classList.toggle('off', !show));
  };

  const drawing = (button) => {
    const svg = button.closest('figure').querySelector('svg'), copy = svg.cloneNode(true);
    copy.querySelectorAll('.off').forEach((g) => g.remove());
    const text = new XMLSerializer().serializeToString(copy);
    return { name: button.closest('figure').dataset.name, box: svg.viewBox.baseVal, uri: 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text) };
  };
  const png = (button) => {
    const { name, box, uri } = drawing(button), image = new Image();
    image.onload = () => {
      const canvas = document.createElement('canvas');
      canvas.width = box.width * 2; canvas.height = box.height * 2;
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
      const made = canvas.toDataURL('image/png');
      button.dataset.bytes = made.length;
      save(made, name + '.png');
    };
    image.src = uri;
  };

  const theme = () => {
    const root = document.documentElement, dark = matchMedia('(prefers-color-scheme:dark)').matches;
    const now = root.dataset.theme || (dark ? 'dark' : 'light');
    root.dataset.theme = now === 'dark' ? 'light' : 'dark';
  };

  on('click', (event) => {
    const th = near(event, '.sortable th'), key = near(event, '.key'), button = near(event, 'button[data-do]');
    if (th) sort(th);
    if (key) toggle(key);
    if (!button) return;
    if (button.dataset.do === 'png') png(button);
    if (button.dataset.do === 'svg') { const d = drawing(button); save(d.uri, d.name + '.svg'); }
    if (button.dataset.do === 'theme') theme();
  });
  on('keydown', (event) => {
    const key = near(event, '.key');
    if (key && (event.key === 'Enter' || event.key === ' ')) { event.preventDefault(); toggle(key); }
  });

  // What is pointed at says what it is; always as text.
  const tip = document.getElementById('tip');
  on('pointermove', (event) => {
    const mark = near(event, '[data-t]');
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.t;
    tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4) + 'px';
    tip.style.top = Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 4) + 'px';
  });

  // A page that is served asks for what was added to the journal, and draws itself anew if there is any.
  const live = document.getElementById('live');
  if (live) {
    let after = JSON.parse(live.textContent).after;
    const poll = async () => {
      let rest = 2000;
      try {
        const news = await (await fetch('journal.json?after=' + after)).json();
        if (news.next > after || news.running === false) {
          const text = await (await fetch('./')).text();
          // Only what changes: a second style or script would be against the policy of this page.
          const part = text.slice(text.indexOf('<div id="body">'), text.indexOf('</main>'));
          const fresh = new DOMParser().parseFromString(part, 'text/html');
          const hidden = [...document.querySelectorAll('figure')].map((f) => [f.dataset.name, [...f.querySelectorAll('.key[aria-pressed=false]')].map((k) => k.dataset.k)]);
          document.querySelector('#body').replaceWith(fresh.querySelector('#body'));
          for (const [name, keys] of hidden) for (const k of keys) document.querySelectorAll(`figure[data-name="${CSS.escape(name)}"] .key[data-k="${k}"]`).forEach(toggle);
          after = news.next;
        }
        document.documentElement.dataset.lines = after;
        if (news.running === false) rest = 10000;
      } catch { rest = 5000; }
      setTimeout(poll, rest);
    };
    setTimeout(poll, 1000);
  }
})();
