// Ends with status 0 on a Node that Vite runs on: "engines" of vite in package-lock.json.
const [major, minor] = process.versions.node.split(".").map(Number);
process.exit(major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19) ? 0 : 1);
