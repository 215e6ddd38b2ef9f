// The models callers are shown and where they are answered, how the providers do, and what everything costs: three tabs.
// How targets do is asked again every few seconds while somebody looks.
import { get } from "../lib/api";
import { useLoad, useRefresh } from "../lib/load";
import { go, query } from "../lib/route";
import type { ModelView as Model, Page as Rows, ProviderView as Provider } from "../lib/types";
import { Choice, Page, Problem, Waiting } from "../ui/parts";
import { ModelList } from "./models/list";
import { PriceList } from "./models/prices";
import { ProviderList } from "./models/providers";

const REFRESH_MS = 10_000;
const TABS = [
  ["routes", "Routes"],
  ["providers", "Providers"],
  ["prices", "Price list"],
] as const;
type Tab = (typeof TABS)[number][0];

export function Models() {
  const models = useLoad((abort) => get<{ data: Model[] }>("/api/models", {}, abort), []);
  const providers = useLoad((abort) => get<Rows<Provider>>("/api/providers", {}, abort), []);
  useRefresh(models.reload, REFRESH_MS);
  useRefresh(providers.reload, REFRESH_MS);
  const tab = TABS.find(([name]) => name === query.value.get("tab"))?.[0] ?? "routes";
  return (
    <Page
      title="Models and providers"
      about="The models that callers can use, their targets and their prices."
      actions={<Choice<Tab> label="What is shown" value={tab} options={TABS} onChange={(chosen) => go("/models", { tab: chosen === "routes" ? null : chosen })} />}
    >
      <Problem error={models.error ?? providers.error} onRetry={models.error ? models.reload : providers.reload} />
      {tab === "prices" ? (
        <PriceList kinds={[...new Set(providers.data?.data.map((each) => each.kind))]} />
      ) : tab === "providers" ? (
        providers.data ? <ProviderList providers={providers.data.data} /> : !providers.error && <Waiting />
      ) : models.data ? (
        <ModelList models={models.data.data} />
      ) : (
        !models.error && <Waiting />
      )}
    </Page>
  );
}
