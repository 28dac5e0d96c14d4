// Draws the garden page from observations.json; the page's own HTML is empty.
(async () => {
  const element = (name, text, attributes = {}) => {
    const node = document.createElement(name);
    if (text) node.textContent = text;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const link = (text, href, attributes = {}) => element("a", text, { href, ...attributes });

  const drawHeader = () => {
    const header = element("header", "", { class: "site" });
    const menu = element("ul", "", { class: "menu" });
    for (const [text, href] of [["首页", "/"], ["品种", "/varieties/"], ["新闻", "/news/"], ["活动", "/events/"]]) {
      const item = element("li");
      item.append(link(text, href));
      menu.append(item);
    }
    header.append(link("一叶茶志", "/", { class: "brand" }), menu);
    return header;
  };

  const drawSites = (sites) => {
    const table = element("table", "", { class: "data" });
    const head = table.createTHead().insertRow();
    for (const label of ["地点", "海拔", "茶园"]) head.append(element("th", label));
    const body = table.createTBody();
    for (const site of sites) {
      const row = body.insertRow();
      for (const text of [site.name, `${site.altitude_m}米`, site.cultivar]) row.append(element("td", text));
    }
    return table;
  };

  const drawNotes = (data) => {
    const article = element("article", "", { class: "essay" });
    article.append(
      element("h1", data.title),
      element("p", `发布时间：${data.published}　作者：${data.author}`, { class: "byline" }),
      element("p", data.intro),
      drawSites(data.sites),
    );
    for (const note of data.notes) {
      article.append(element("h2", `${note.date} · ${note.site}`), element("p", note.text));
    }
    const related = element("p", "相关报道：");
    related.append(link("栖云春茶开采，比去年早六天", "/news/2026/spring-picking.html"));
    article.append(related);
    return article;
  };

  const page = element("div", "", { class: "page" });
  document.getElementById("garden").append(drawHeader(), page);
  try {
    const response = await fetch("observations.json");
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    const data = await response.json();
    document.title = `${data.title}_一叶茶志`;
    page.append(drawNotes(data));
  } catch (error) {
    page.append(element("p", `数据没有载入：${error.message}`));
  }
})();
