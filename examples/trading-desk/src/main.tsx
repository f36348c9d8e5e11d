import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { connect } from "sowline";
import { SowlineProvider } from "sowline/react";

import { Desk } from "./Desk.js";
import "./desk.css";

const service = new URLSearchParams(location.search).get("service") ?? "http://127.0.0.1:8080";
const client = connect(service);

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <SowlineProvider client={client}>
      <Desk />
    </SowlineProvider>
  </StrictMode>,
);
