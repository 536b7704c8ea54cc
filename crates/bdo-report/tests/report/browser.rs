//! Pages in a real browser.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bdo_report::kind::Kind;
use bdo_report::live::LiveServer;
use bdo_report::report::page_of;
use serde_json::{Value, json};

use crate::fixture::{Names, compare_folder, everything, journal_line, run_folder};
use crate::hostile::corpus;
use crate::webdriver::Browser;

/// For every figure: its name, whether something is drawn, rows of its numbers, whether its pictures are pictures.
const FIGURES: &str = r"
    const found = [];
    for (const f of document.querySelectorAll('figure')) {
        const svg = f.querySelector('svg'), box = svg.getBoundingClientRect();
        const marks = svg.querySelectorAll('path,circle,rect,image').length;
        const csv = atob(f.querySelector('a[download$=\'.csv\']').href.split(',')[1]);
        let pictures = true;
        for (const i of svg.querySelectorAll('image')) {
            const image = new Image(); image.src = i.getAttribute('href'); await image.decode();
            pictures &&= image.naturalWidth > 0;
        }
        found.push({name: f.dataset.name, width: box.width, height: box.height, marks, rows: csv.trim().split('\n').length, pictures, caption: f.querySelector('figcaption').textContent.length});
    }
    return found;";

/// Texts of a drawing that lie on each other or outside of it.
const OVERLAPS: &str = r"
    const bad = [];
    for (const svg of document.querySelectorAll('figure .scroll > svg')) {
        const outer = svg.getBoundingClientRect();
        const slanted = (t) => !!t.getAttribute('transform') && !t.getAttribute('transform').includes('rotate(-90)');
        const texts = [...svg.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect(), slanted(t)]);
        for (const [text, r] of texts) if (r.left < outer.left - 2 || r.right > outer.right + 2 || r.bottom > outer.bottom + 2) bad.push(svg.closest('figure').dataset.name + ': outside: ' + text);
        for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length; j++) {
            const [a, b] = [texts[i][1], texts[j][1]];
            // Slanted names have boxes that cross where their letters do not.
            if (texts[i][2] || texts[j][2]) continue;
            if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3) bad.push(svg.closest('figure').dataset.name + ': ' + texts[i][0] + ' on ' + texts[j][0]);
        }
    }
    return bad;";

/// Opens a page and insists that nothing went wrong and nothing was fetched.
fn opened(browser: &Browser, html: &str, folder: &std::path::Path) {
    let path = folder.join("page.html");
    std::fs::write(&path, html).unwrap();
    // What was opened before is not looked at again.
    let (_, _) = (browser.console(), browser.requests());
    browser.open_file(&path);
    assert_eq!(browser.console(), Vec::<String>::new());
    assert_eq!(browser.requests(), [format!("file://{}", path.display())]);
}

fn figures_are_drawn(browser: &Browser, least: usize) {
    let figures = browser.run_later(FIGURES);
    let figures = figures.as_array().unwrap_or_else(|| panic!("{figures}"));
    assert!(figures.len() >= least, "{} figures", figures.len());
    for f in figures {
        let at_least = |key: &str, n: u64| f[key].as_f64().unwrap_or(0.0) >= n as f64;
        assert!(
            at_least("width", 200)
                && at_least("height", 80)
                && at_least("marks", 5)
                && at_least("rows", 2)
                && at_least("caption", 10),
            "{f}"
        );
        assert_eq!(f["pictures"], true, "{f}");
    }
}

fn set_width(browser: &Browser, width: u32) {
    browser.cdp(
        "Emulation.setDeviceMetricsOverride",
        &json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false}),
    );
}

fn set_dark(browser: &Browser, dark: bool) {
    let value = if dark { "dark" } else { "light" };
    browser.cdp("Emulation.setEmulatedMedia", &json!({"features": [{"name": "prefers-color-scheme", "value": value}]}));
}

#[test]
fn a_page_with_every_figure_works() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let html = everything(folder.path(), &Names::plain());
    opened(&browser, &html, folder.path());
    figures_are_drawn(&browser, 30);
    assert_eq!(browser.run(OVERLAPS), json!([]));
    tables_sort(&browser);
    legends_filter(&browser);
    colours_follow_the_room(&browser);
    fits_a_phone(&browser);
    pictures_can_be_saved(&browser);
    pointing_says_what_it_is(&browser);
    every_link_of_the_contents_leads_somewhere(&browser);
    assert_eq!(browser.console(), Vec::<String>::new());
    assert_eq!(browser.requests(), Vec::<String>::new());
}

fn tables_sort(browser: &Browser) {
    let column = r"const table = document.querySelector('.sortable'), at = [...table.querySelectorAll('th')].findIndex((t) => t.textContent === 'steps');
        const values = () => [...table.tBodies[0].rows].map((r) => +r.children[at].dataset.v);
        const press = () => { table.querySelectorAll('th')[at].querySelector('button').click(); return [values(), table.querySelectorAll('th')[at].getAttribute('aria-sort')]; };
        return [press(), press()];";
    assert_eq!(browser.run(column), json!([[[60, 100], "ascending"], [[100, 60], "descending"]]));
}

fn legends_filter(browser: &Browser) {
    let press = |how: &str| {
        browser.run(&format!(
            r"const f = document.querySelector('figure[data-name=features-sex]'), key = [...f.querySelectorAll('.key')].find((k) => k.textContent === 'F');
            const seen = () => [...f.querySelector('svg.chart').querySelectorAll('[data-t]')].filter((m) => m.getBoundingClientRect().width > 0).length;
            const before = seen(); {how}; return [before, seen(), key.getAttribute('aria-pressed')];"
        ))
    };
    assert_eq!(press("key.dispatchEvent(new MouseEvent('click', {bubbles: true}))"), json!([24, 12, "false"]));
    assert_eq!(
        press("key.focus(); key.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))"),
        json!([12, 24, "true"])
    );
    assert_eq!(browser.run("return document.activeElement.getAttribute('role')"), "button");
}

/// Relative luminance of paper and ink; WCAG asks for a contrast of 4.5.
fn colours_follow_the_room(browser: &Browser) {
    let contrast = || {
        browser.run(
            r"const light = (c) => { const [r, g, b] = c.match(/[\d.]+/g).slice(0, 3).map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
            const paper = light(getComputedStyle(document.body).backgroundColor), ink = light(getComputedStyle(document.querySelector('svg .ink')).fill), soft = light(getComputedStyle(document.querySelector('figcaption')).color);
            const ratio = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
            return [paper, ratio(paper, ink), ratio(paper, soft)];",
        )
    };
    let number = |v: &Value, i: usize| v[i].as_f64().unwrap();
    set_dark(browser, false);
    let light = contrast();
    set_dark(browser, true);
    let dark = contrast();
    assert!(number(&light, 0) > 0.9 && number(&dark, 0) < 0.05, "{light} {dark}");
    for found in [&light, &dark] {
        assert!(number(found, 1) > 7.0 && number(found, 2) > 4.5, "{found}");
    }
    // The button turns it the other way.
    browser.run("document.querySelector('[data-do=theme]').click()");
    assert!(number(&contrast(), 0) > 0.9);
    browser.run("document.querySelector('[data-do=theme]').click()");
    set_dark(browser, false);
}

fn fits_a_phone(browser: &Browser) {
    set_width(browser, 400);
    assert_eq!(
        browser.run("return [innerWidth, document.documentElement.scrollWidth <= innerWidth]"),
        json!([400, true])
    );
    set_width(browser, 1200);
}

fn pictures_can_be_saved(browser: &Browser) {
    let sizes = browser.run_later(
        r"const sizes = [];
        for (const b of document.querySelectorAll('button[data-do=png]')) {
            b.click();
            for (let i = 0; i < 3000 && !b.dataset.bytes; i++) await new Promise((r) => setTimeout(r, 20));
            sizes.push(+(b.dataset.bytes || 0));
        }
        return sizes;",
    );
    let sizes = sizes.as_array().unwrap();
    assert!(sizes.len() >= 30 && sizes.iter().all(|s| s.as_u64().unwrap() > 3000), "{sizes:?}");
}

fn pointing_says_what_it_is(browser: &Browser) {
    let said = browser.run(
        r"const mark = document.querySelector('figure[data-name=features-sex] [data-t]'), tip = document.querySelector('#tip');
        mark.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: 50, clientY: 50}));
        const shown = [tip.hidden, tip.textContent === mark.dataset.t && tip.textContent.length > 3];
        document.body.dispatchEvent(new PointerEvent('pointermove', {bubbles: true}));
        return [...shown, tip.hidden];",
    );
    assert_eq!(said, json!([false, true, true]));
}

fn every_link_of_the_contents_leads_somewhere(browser: &Browser) {
    let lost = browser.run("return [...document.querySelectorAll('nav a')].filter((a) => !document.querySelector(a.getAttribute('href'))).length");
    assert_eq!(lost, 0);
    let ids = browser.run("const ids = [...document.querySelectorAll('h2[id],figure[id]')].map((e) => e.id); return ids.length - new Set(ids).size");
    assert_eq!(ids, 0);
}

#[test]
fn hostile_names_do_nothing_in_a_browser() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let html = everything(folder.path(), &corpus());
    opened(&browser, &html, folder.path());
    figures_are_drawn(&browser, 25);
    // Also when every mark has been pointed at.
    browser.run("document.querySelectorAll('[data-t]').forEach((m) => m.dispatchEvent(new PointerEvent('pointermove', {bubbles: true})))");
    assert_eq!(browser.run("return typeof window.pwned"), "undefined");
    assert_eq!(
        browser.run("return document.querySelectorAll('script:not([nonce]),img,iframe,object,base,form').length"),
        0
    );
    set_width(&browser, 400);
    assert_eq!(browser.run("return document.documentElement.scrollWidth <= innerWidth"), true);
    assert_eq!((browser.console(), browser.requests()), (vec![], vec![]));
}

#[test]
fn a_comparison_alone_works() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    compare_folder(&folder.path().join("compare"), &Names::plain());
    let page = page_of(&[(folder.path().join("compare"), Kind::Comparison)], "bdo report compare").unwrap();
    opened(&browser, &page.finish("0.1.0"), folder.path());
    figures_are_drawn(&browser, 7);
}

#[test]
fn the_result_comes_first_and_tables_fit_their_page() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    opened(&browser, &everything(folder.path(), &Names::plain()), folder.path());
    // Boxes of all kinds of folders, each before the contents.
    let boxes = browser.run("const nav = document.querySelector('nav').getBoundingClientRect().top; return [...document.querySelectorAll('.verdict')].map((v) => [v.querySelector('.about').textContent, v.querySelector('.headline').textContent.length > 15, v.getBoundingClientRect().bottom <= nav])");
    let boxes = boxes.as_array().unwrap();
    for kind in ["Pre-training", "Comparison", "Sweep", "Prediction of", "Cohort", "impute", "Speed and memory"] {
        let found = boxes.iter().find(|b| b[0].as_str().unwrap().starts_with(kind));
        assert!(found.is_some_and(|b| b[1] == true && b[2] == true), "{kind}: {boxes:?}");
    }
    for name in ["bands", "inference-error", "coverage"] {
        // The cohort has a figure of its coverage too.
        let figures = browser.run(&format!("return document.querySelectorAll('figure[data-name={name}]').length"));
        assert_eq!(figures, 1 + u64::from(name == "coverage"), "{name}");
    }
    for width in [1280, 400] {
        set_width(&browser, width);
        let hidden = browser.run(
            r"const bad = [];
            for (const table of document.querySelectorAll('.fits')) {
                const outer = table.closest('.scroll');
                if (outer.scrollWidth > outer.clientWidth + 1 || outer.scrollHeight > outer.clientHeight + 1) bad.push(table.caption.textContent + ': scrolls');
                for (const cell of table.querySelectorAll('td')) {
                    const r = cell.getBoundingClientRect();
                    if (r.width === 0 || r.left < 0 || r.right > innerWidth) bad.push(table.caption.textContent + ': ' + cell.textContent);
                }
            }
            return [document.querySelectorAll('.fits').length > 0, document.documentElement.scrollWidth <= innerWidth, bad];",
        );
        assert_eq!(hidden, json!([true, true, []]), "{width}");
    }
    // A card is no wider than what is drawn in it, but for its padding.
    set_width(&browser, 1280);
    let empty = browser.run(
        r"const bad = [];
        for (const figure of document.querySelectorAll('figure')) {
            const card = figure.getBoundingClientRect(), drawn = figure.querySelector('.scroll > svg').getBoundingClientRect();
            if (drawn.width < card.width - 40) bad.push([figure.dataset.name, card.width, drawn.width]);
        }
        return bad;",
    );
    assert_eq!(empty, json!([]));
    // Entries of the contents can be told apart.
    let entries = browser.run("return [...document.querySelectorAll('nav a')].map((a) => a.textContent)");
    let entries: Vec<&str> = entries.as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
    let different: std::collections::BTreeSet<&&str> = entries.iter().collect();
    assert_eq!(different.len(), entries.len(), "{entries:?}");
    let headings =
        browser.run("return [...document.querySelector('.fits').querySelectorAll('th')].map((h) => h.textContent)");
    let names: Vec<&str> = headings.as_array().unwrap().iter().map(|h| h.as_str().unwrap()).collect();
    assert!(names.contains(&"p") && names.contains(&"q") && names.contains(&"notes"), "{names:?}");
}

#[test]
fn a_served_page_follows_its_run() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path(), 30);
    let server = LiveServer::bind(folder.path(), 0, "0.1.0").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(&stop));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            browser.open(&format!("http://{}/", server.address()));
            figures_are_drawn(&browser, 5);
            assert!(browser.run("return document.body.textContent").as_str().unwrap().contains("30 of 200 steps"));
            let journal = folder.path().join("journal.jsonl");
            let text = std::fs::read_to_string(&journal).unwrap();
            let whole = text.rsplit_once('\n').unwrap().0.to_owned() + "\n";
            std::fs::write(&journal, whole + &(30..50).map(journal_line).collect::<String>()).unwrap();
            let started = Instant::now();
            while !browser.run("return document.body.textContent").as_str().unwrap().contains("50 of 200 steps") {
                assert!(started.elapsed() < Duration::from_mins(2), "the page never followed");
                std::thread::sleep(Duration::from_millis(200));
            }
            figures_are_drawn(&browser, 5);
            assert_eq!(browser.console(), Vec::<String>::new());
            let own = format!("http://{}/", server.address());
            let requests = browser.requests();
            assert!(requests.len() > 1 && requests.iter().all(|url| url.starts_with(&own)), "{requests:?}");
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}
