// Fetches this page again each second and puts its new contents in place of the old ones.
const lost = document.getElementById("lost");
async function look() {
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const details of document.querySelectorAll("details[open]")) {
      const same = next.getElementById(details.id);
      if (same) same.open = true;
    }
    for (const name of ["main", "footer"]) {
      document.querySelector(name).replaceChildren(...next.querySelector(name).childNodes);
    }
    document.title = next.title;
    lost.hidden = true;
  } catch {
    lost.hidden = false;
  }
  setTimeout(look, 1000);
}
setTimeout(look, 1000);
