"use strict";
// Filters a report by outcome, group and words, and copies commands; the page is complete without it.
(function () {
  var panel = document.querySelector(".filter");
  function all(where, selector) {
    return Array.prototype.slice.call(where.querySelectorAll(selector));
  }
  function chosen(name) {
    return all(panel, "input[name=" + name + "]:checked").map(function (input) { return input.value; });
  }
  function filter() {
    var outcomes = chosen("outcome"), groups = chosen("group"), shown = 0, total = 0;
    var field = panel.querySelector("input[name=words]"), words = field ? field.value.trim().toLowerCase() : "";
    all(document, ".outcome").forEach(function (section) {
      var kept = 0;
      all(section, ".finding").forEach(function (finding) {
        finding.hidden = groups.indexOf(finding.dataset.group) < 0 ||
          (words !== "" && finding.textContent.toLowerCase().indexOf(words) < 0);
        kept += finding.hidden ? 0 : 1;
        total += 1;
      });
      section.hidden = outcomes.indexOf(section.dataset.outcome) < 0 || kept === 0;
      shown += section.hidden ? 0 : kept;
    });
    panel.querySelector(".told").textContent = shown === total ? "" : "(" + shown + " of " + total + " findings shown)";
  }
  if (panel) {
    all(panel, "input[name=outcome]").forEach(function (input) {
      if (!document.querySelector(".outcome[data-outcome=" + input.value + "]")) { input.parentNode.remove(); }
    });
    panel.hidden = false;
    panel.addEventListener("change", filter);
    panel.addEventListener("input", filter);
    panel.addEventListener("submit", function (event) { event.preventDefault(); });
    filter();
  }
  // a link to a finding leads to it, also into what is folded away
  function open_target() {
    var name = window.location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch (error) { return; }
    var target = document.getElementById(name);
    var fold = target && target.closest("details:not([open])");
    if (fold) { fold.open = true; target.scrollIntoView(); }
  }
  window.addEventListener("hashchange", open_target);
  open_target();
  // Not offered by a page that came over plain HTTP: a browser gives it no clipboard.
  if (navigator.clipboard) {
    all(document, ".command").forEach(function (command) {
      var text = command.textContent, button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "copy";
      button.setAttribute("aria-label", "copy: " + text);
      button.addEventListener("click", function () {
        navigator.clipboard.writeText(text).then(
          function () { button.textContent = "copied"; }, function () { button.textContent = "not copied"; });
      });
      command.parentNode.insertBefore(button, command.nextSibling);
    });
  }
  // what is folded away would be missing on paper
  window.addEventListener("beforeprint", function () {
    all(document, "details:not([open])").forEach(function (one) { one.open = true; one.dataset.folded = "yes"; });
  });
  window.addEventListener("afterprint", function () {
    all(document, "details[data-folded]").forEach(function (one) { one.open = false; delete one.dataset.folded; });
  });
})();
