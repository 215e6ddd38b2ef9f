// The models callers are shown and where they are answered, how the providers do, and what everything costs. How a target
// does is what the process that answers has seen; it is asked again every few seconds while somebody looks.
import { get } from "../lib/api";
import { useLoad, useRefresh } from "../lib/load";
import type { ModelView as Model, Page as Rows, ProviderView as Provider } from "../lib/types";
import { Page, Problem, Waiting } from "../ui/parts";
import { ModelList } from "./models/list";
import { PriceList } from "./models/prices";
import { ProviderList } from "./models/providers";

const REFRESH_MS = 10_000;

export function Models() {
  const models = useLoad((abort) => get<{ data: Model[] }>("/api/models", {}, abort), []);
  const providers = useLoad((abort) => get<Rows<Provider>>("/api/providers", {}, abort), []);
  useRefresh(models.reload, REFRESH_MS);
  useRefresh(providers.reload, REFRESH_MS);
  return (
    <Page title="Models and providers" about="The models that callers can use, their targets and their prices.">
      <Problem error={models.error ?? providers.error} onRetry={models.error ? models.reload : providers.reload} />
      {models.data ? <ModelList models={models.data.data} providers={providers.data?.data ?? []} /> : !models.error && <Waiting />}
      {providers.data && <ProviderList providers={providers.data.data} />}
      <PriceList kinds={[...new Set(providers.data?.data.map((each) => each.kind))]} />
    </Page>
  );
}
