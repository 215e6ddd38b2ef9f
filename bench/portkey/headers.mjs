// Portkey is told by two headers of each request where the provider is. The load generator sends no
// header of one system alone, so they are added here, as the request arrives and before Portkey sees it.
import { subscribe } from "node:diagnostics_channel";

const HEADERS = ["x-portkey-provider", "openai", "x-portkey-custom-host", process.env.PORTKEY_UPSTREAM];

subscribe("http.server.request.start", ({ request }) => request.rawHeaders.push(...HEADERS));
