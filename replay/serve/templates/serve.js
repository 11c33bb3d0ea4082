// What a trial is doing, told while it goes on. The page itself stays as it is until the reader loads it again.
const work = document.getElementById("work");
const PAUSE = 5000;

const told = async () => {
  const answer = await fetch("/api/v1/trials");
  if (!answer.ok) return;
  const { trials } = await answer.json();
  const mine = trials.filter((trial) => [undefined, trial.name].includes(work.dataset.trial));
  const busy = mine.find((trial) => trial.phase === "deciding");
  const results = mine.map((trial) => trial.decidedAt).join();
  work.dataset.results ??= results;
  const { what, done, of } = busy?.progress ?? {};
  const share = of ? `: ${Math.floor((100 * done) / of)} %` : "";
  const state = work.querySelector("span");
  state.textContent = busy ? `${busy.name} is being decided over the whole store. ${what}${share}` : "";
  work.querySelector("a").hidden = results === work.dataset.results;
};

if (work) setInterval(() => told().catch(() => {}), PAUSE);
