// Order of search results: first pages and sections whose titles have the words. The API reference
// comes last, unless the query is one of its names, such as SerialSampler or env_info.
const query = new URLSearchParams(window.location.search).get("q") || "";
const words = query.toLowerCase().match(/[\w-]+/g) || [];
const isName = /[a-z][A-Z]|_/.test(query);
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    const named = words.filter((word) => title.toLowerCase().includes(word.replace(/s$/, "")));
    const behind = page.startsWith("api") && !isName ? 40 : 0;
    return score + (20 * named.length) / words.length - behind;
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
