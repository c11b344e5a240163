/** Requests to the server that served this page: the key that goes with them, and its errors in its own words. */
import { ofTab } from "../common/kept";

/** An answer of the server that is no answer, or none at all (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** Where the key is kept: for this tab only, and gone with it. */
const KEY = "gleed.key";

export function apiKey(): string {
  return ofTab.get(KEY) ?? "";
}

export function setApiKey(key: string): void {
  ofTab.set(KEY, key || null);
}

/** A response with a good status; anything else is an `ApiError`. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = apiKey();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, `The server cannot be reached: ${reason(error)}`);
  }
  if (response.ok) return response;
  const body = await response.text().catch(() => "");
  throw new ApiError(response.status, errorText(body) ?? `The server answered ${response.status}. ${body}`.trim());
}

/** The message inside an error of the API (`{"error": {"message": …}}`), if that is what it is. */
export function errorText(body: string): string | null {
  try {
    const error: unknown = (JSON.parse(body) as { error?: unknown } | null)?.error;
    if (typeof error === "string") return error;
    const message: unknown = (error as { message?: unknown } | null | undefined)?.message;
    return typeof message === "string" ? message : null;
  } catch {
    return null;
  }
}

export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The names of the models that the server offers. */
export async function models(): Promise<string[]> {
  const response = await request("/v1/models");
  const list = (await response.json()) as { data: { id: string }[] };
  return list.data.map((model) => model.id);
}
