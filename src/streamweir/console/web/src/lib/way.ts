// How somebody has signed in with this browser, so that the page offers it first.
export type Way = "name" | "secret";

const NAME = "streamweir-signin";

export function keptWay(): Way {
  return localStorage.getItem(NAME) === "name" ? "name" : "secret";
}

export function keepWay(way: Way): void {
  localStorage.setItem(NAME, way);
}
